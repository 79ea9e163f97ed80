"""Decisions: what happens next to an unresolved message, and who decided it by which rule."""

from collections.abc import Mapping
from datetime import datetime
from typing import assert_never

from retrier.domain.failed_message import Disposition
from retrier.domain.streams import StreamRule
from retrier.domain.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Manual:
    """A person decides what happens.

    `why` is set if the failure does not explain the state. `policy` names the rule that gave up,
    or None.
    """

    why: str | None = None
    policy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryAt:
    """The message is retried automatically at this time, by the rule `policy`."""

    at: datetime
    why: str
    policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dead:
    """The message is given up: neither automatic nor bulk retries take it.

    `policy` names the rule; None if a person decided.
    """

    why: str
    policy: str | None = None


Decision = Manual | RetryAt | Dead

AGAIN = "; it has failed again since then"
"""What the words of a decision end with that stands although its message failed again."""


def disposition_of(decision: Decision) -> Disposition:
    """Return the disposition that a decision gives an unresolved message."""
    match decision:
        case Manual():
            return Disposition.MANUAL
        case RetryAt():
            return Disposition.SCHEDULED
        case Dead():
            return Disposition.DEAD
        case _ as never:
            assert_never(never)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What is made of one failure: the reason it is classified under, and the decision.

    `stream` says whether earlier messages of its stream hold it; None if no rule does. `own_reason`
    is set if what stood before the failure stays: the failure alone is classified under it, and
    `reason` is that of its message.
    """

    reason: str
    decision: Decision
    stream: StreamRule | None = None
    own_reason: str | None = None

    @property
    def stands(self) -> bool:
        """Whether nothing was decided about this failure."""
        return self.own_reason is not None

    @property
    def failure_reason(self) -> str:
        """The reason of the failure, whatever its message is classified under."""
        return self.reason if self.own_reason is None else self.own_reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """Messages of one transaction that one rule decided alike; `policy` is None for no rule.

    `reasons` counts them by the reasons of their failures. `earliest` is when the first of them is
    retried; None if they are not scheduled.
    """

    disposition: Disposition
    policy: str | None
    count: int
    reasons: Mapping[str, int]
    earliest: datetime | None = None
