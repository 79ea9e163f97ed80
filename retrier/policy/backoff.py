"""Back-off: how long a message waits after its nth failure, before any jitter."""

from dataclasses import dataclass
from datetime import timedelta
from typing import assert_never

LONGEST = timedelta(days=36_500)
"""No delay is longer: now and that many days are still a valid time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential:
    """`first * factor^(n-1)`, at most `cap`."""

    first: timedelta
    factor: float = 2.0
    cap: timedelta = LONGEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """`first + step * (n-1)`, at most `cap`."""

    first: timedelta
    step: timedelta
    cap: timedelta = LONGEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """Always the same."""

    first: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """The nth of a list that is not empty, then its last."""

    delays: tuple[timedelta, ...]


Backoff = Exponential | Linear | Fixed | Listed


def delay_after(backoff: Backoff, failures: int) -> timedelta:
    """Return the delay after so many failures, from 1 on. No number is too large for it."""
    before = failures - 1
    match backoff:
        case Exponential(first=first, factor=factor, cap=cap):
            return _at_most(cap, first.total_seconds() * _power(factor, before))
        case Linear(first=first, step=step, cap=cap):
            return _at_most(cap, first.total_seconds() + step.total_seconds() * before)
        case Fixed(first=first):
            return first
        case Listed(delays=delays):
            return delays[min(before, len(delays) - 1)]
        case _ as never:
            assert_never(never)


def _power(factor: float, exponent: int) -> float:
    try:
        return factor**exponent
    except OverflowError:
        return float("inf")


def _at_most(cap: timedelta, seconds: float) -> timedelta:
    # The cap first: a timedelta holds no infinity, and no year 10,000,000.
    return cap if seconds >= cap.total_seconds() else timedelta(seconds=seconds)
