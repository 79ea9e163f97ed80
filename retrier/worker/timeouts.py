"""How often a handler took too long with a message, and when that message is tried again."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from retrier.domain.dialects.dialect import count
from retrier.domain.headers import WORKER_NOT_BEFORE, WORKER_TIMEOUTS

LONGEST_PAUSE = 600.0
"""Seconds. Without effect if one try takes longer than that."""
_DOUBLED_AT_MOST = 30
_LONGEST_NUMBER = 12


@dataclass(frozen=True, slots=True)
class Late:
    """This often its handler took too long; it is not started again for `seconds`."""

    times: int
    seconds: float


def read_late(headers: Mapping[str, object], timeout: float | None, now: datetime) -> Late:
    """Return what earlier workers wrote into a message; nothing is late for who has no timeout."""
    times = count(headers.get(WORKER_TIMEOUTS)) or 0
    if timeout is None or not times:
        return Late(0, 0)
    seconds = _read_time(headers.get(WORKER_NOT_BEFORE)) - now.timestamp()
    # More than it was ever meant to wait: somebody's clock was wrong.
    is_due = seconds <= 0 or seconds > find_pause(times, timeout) + 1
    return Late(times, 0 if is_due else seconds)


def stamp(times: int, timeout: float, now: datetime) -> Mapping[str, str]:
    """Return the headers for a message whose handler took too long, now for the `times`th time."""
    until = now.timestamp() + find_pause(times, timeout)
    return {WORKER_TIMEOUTS: str(times), WORKER_NOT_BEFORE: str(int(until))}


def find_pause(times: int, timeout: float) -> float:
    """Return the seconds between two tries: as long as a try, then twice that, and so on.

    So a message that takes too long holds the queue half of the time at most.
    """
    doubled = timeout * 2.0 ** min(times - 1, _DOUBLED_AT_MOST)
    return min(doubled, max(LONGEST_PAUSE, timeout))


def _read_time(value: object) -> float:
    text = value if isinstance(value, str) else ""
    is_time = text.isascii() and text.isdigit() and len(text) < _LONGEST_NUMBER
    return float(text) if is_time else 0
