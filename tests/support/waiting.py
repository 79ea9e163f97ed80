"""The one place in the tests that sleeps."""

import time
from collections.abc import Callable

POLL = 0.02
LOOKS = 25


def wait_until(predicate: Callable[[], object], deadline: float, what: str = "") -> None:
    """Wait until the predicate is true; fail after `deadline` seconds.

    A machine that stood still for so long has not given it a chance: it is asked some times more.
    """
    end = time.monotonic() + deadline
    looks = 0
    while not predicate():
        looks += 1
        if time.monotonic() > end and looks > LOOKS:
            raise AssertionError(f"not within {deadline} s: {what or predicate}")
        time.sleep(POLL)  # noqa: TID251 - the one place that may


def let_pass(seconds: float) -> None:
    """Wait so long: for a fault to last, never for something to happen."""
    time.sleep(seconds)  # noqa: TID251 - the one place that may
