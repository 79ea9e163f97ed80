"""Limits of processor time, on a machine whose cores are slower at one moment than at the next."""

from collections.abc import Callable
from time import process_time

TRIES = 3


def can_take(limit: float, act: Callable[[], object]) -> bool:
    """Say whether one of a few tries takes less processor time than the limit, in seconds."""
    return any(_time(act) < limit for _ in range(TRIES))


def _time(act: Callable[[], object]) -> float:
    began = process_time()
    act()
    return process_time() - began
