"""The one place in the tests that sleeps."""

import time
from collections.abc import Callable

POLL = 0.02
SELDOM = 0.1
LOOKS = 25


def wait_until(predicate: Callable[[], object], deadline: float, what: str = "") -> None:
    """Wait until the predicate is true; fail after `deadline` seconds.

    A machine that stood still for so long has not given it a chance: it is asked some times more.
    """
    begun = time.monotonic()
    looks = 0
    while not predicate():
        looks += 1
        waited = time.monotonic() - begun
        if waited > deadline and looks > LOOKS:
            raise AssertionError(f"not within {deadline} s: {what or predicate}")
        # Each look is a question to a process or a server: what takes long is asked less often.
        time.sleep(min(max(POLL, waited / 20), SELDOM))  # noqa: TID251 - the one place that may


def let_pass(seconds: float) -> None:
    """Wait so long: for a fault to last, never for something to happen."""
    time.sleep(seconds)  # noqa: TID251 - the one place that may
