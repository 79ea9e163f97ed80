"""Delays: how long a message waits after its nth failure, with a random part; and presets."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import assert_never

from retrier.domain.values import dataclass
from retrier.policy import reasons
from retrier.policy.patterns import Globs

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
class ListedDelays:
    """The nth of a list that is not empty, then its last."""

    delays: tuple[timedelta, ...]


Backoff = Exponential | Linear | Fixed | ListedDelays


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
        case ListedDelays(delays=delays):
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


class Spread(StrEnum):
    """How much of a delay is random.

    NONE   nothing.
    FULL   all of it: from 0 to the delay.
    EQUAL  the second half of it.
    """

    NONE = "none"
    FULL = "full"
    EQUAL = "equal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Additive:
    """From 0 to `most` is added to the delay, also to one that a cap has cut."""

    most: timedelta


Jitter = Spread | Additive


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayRange:
    """The shortest and the longest delay that can come out."""

    shortest: timedelta
    longest: timedelta


def range_of(backoff: Backoff, jitter: Jitter, failures: int) -> DelayRange:
    """Return between which delays a message waits after so many failures."""
    delay = delay_after(backoff, failures)
    match jitter:
        case Spread.NONE:
            return DelayRange(shortest=delay, longest=delay)
        case Spread.FULL:
            return DelayRange(shortest=timedelta(0), longest=delay)
        case Spread.EQUAL:
            return DelayRange(shortest=delay / 2, longest=delay)
        case Additive(most=most):
            return DelayRange(shortest=delay, longest=delay + most)
        case _ as never:
            assert_never(never)


def spread(range_: DelayRange, dice: Callable[[], float]) -> timedelta:
    """Return a delay of that range, by the dice."""
    return range_.shortest + (range_.longest - range_.shortest) * dice()


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """What a preset gives to a rule; None means that the rule has to say it itself."""

    attempts: int | None
    backoff: Backoff | None
    jitter: Jitter = Spread.NONE
    never: Globs = ()
    only: Globs = ()


_OUTBOX = Exponential(first=timedelta(minutes=1), cap=timedelta(hours=1))

COOLDOWN = "cooldown"

PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "outbox": Preset(attempts=10, backoff=_OUTBOX),
        "gateway": Preset(
            attempts=3,
            backoff=Exponential(first=timedelta(seconds=5)),
            jitter=Additive(most=timedelta(seconds=5)),
            only=("GW_5XX", "GW_TIMEOUT", "IO_ERROR", "UNKNOWN"),
        ),
        COOLDOWN: Preset(attempts=None, backoff=None),
        "caf": Preset(
            attempts=10,
            backoff=_OUTBOX,
            never=(reasons.HANDLER_EXCEPTION, reasons.INVALID_MESSAGE, reasons.POISON_MESSAGE),
        ),
    }
)
"""By name. `cooldown` waits the same time after each failure: a rule gives time and attempts."""
