"""Jitter: a random part of a delay, so that what failed together does not come back together."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import assert_never

from retrier.policy.backoff import Backoff, delay_after


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
