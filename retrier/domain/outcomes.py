"""Outcomes: what became of a retry that was sent, in the words that every face uses."""

from collections.abc import Mapping
from enum import StrEnum

from retrier.domain.values import dataclass


class RetryOutcome(StrEnum):
    """What became of one retry that was sent; WAITING: nothing that is known of yet.

    CAME_BACK is the last word: also of one that was presumed or resolved before it came back.
    RELEASED: a person gave the wait up, and retried the message again or declared it dead.
    EDITED: an edited version was sent in its place; if that one fails, it is a message of its own.
    """

    CONFIRMED = "confirmed"
    CAME_BACK = "came_back"
    PRESUMED = "presumed"
    RESOLVED = "resolved"
    RELEASED = "released"
    EDITED = "edited"
    WAITING = "waiting"


OUTCOME_WORDS: Mapping[RetryOutcome, str] = {
    RetryOutcome.CONFIRMED: "confirmed",
    RetryOutcome.CAME_BACK: "came back",
    RetryOutcome.PRESUMED: "presumed to have succeeded",
    RetryOutcome.RESOLVED: "resolved by a person",
    RetryOutcome.RELEASED: "given up by a person",
    RetryOutcome.EDITED: "sent as edited",
    RetryOutcome.WAITING: "without outcome yet",
}

_ALWAYS_SHOWN = frozenset({RetryOutcome.CONFIRMED, RetryOutcome.CAME_BACK})
"""Shown even if there are none: that none came back is what people look for."""


def outcomes_to_show(counts: Mapping[RetryOutcome, int]) -> Mapping[RetryOutcome, int]:
    """Return what people are shown of these counts, in the order of reading: empty if all are 0.

    While no retry has an outcome, only that; else the rare ones only if there are any.
    """
    some = {each: counts[each] for each in RetryOutcome if counts[each]}
    if some.keys() <= {RetryOutcome.WAITING}:
        return some
    return {each: counts[each] for each in RetryOutcome if each in some or each in _ALWAYS_SHOWN}


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeCounts:
    """Of the retries that an operation sent, how many have which outcome.

    `unknown` had ended, and their messages were deleted, before outcomes were counted.
    """

    confirmed: int = 0
    came_back: int = 0
    presumed: int = 0
    resolved: int = 0
    released: int = 0
    edited: int = 0
    unknown: int = 0

    @property
    def by_outcome(self) -> Mapping[RetryOutcome, int]:
        """The same by outcome, in the order of reading."""
        return {
            each: getattr(self, each.value)
            for each in RetryOutcome
            if each is not RetryOutcome.WAITING
        }

    @property
    def total(self) -> int:
        """How many have an outcome."""
        return sum(self.by_outcome.values()) + self.unknown
