"""Limits of processor time, on a machine whose cores are slower at one moment than at the next."""

import os
from collections.abc import Callable
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from time import process_time

TRIES = 3


def can_take(limit: float, act: Callable[[], object]) -> bool:
    """Say whether one of a few tries takes less processor time than the limit, in seconds."""
    return any(_time(act) < limit for _ in range(TRIES))


def _time(act: Callable[[], object]) -> float:
    began = process_time()
    act()
    return process_time() - began


def time_of_children(act: Callable[[], object]) -> float:
    """Return the processor time of the processes that something starts and waits for, in seconds."""
    began = getrusage(RUSAGE_CHILDREN)
    act()
    ended = getrusage(RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime


def time_of(pid: int) -> float:
    """Return the processor time that a process of this machine has taken up to now, in seconds."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
