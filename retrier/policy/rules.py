"""Rules: which failures a rule decides about, and what it decides."""

from dataclasses import dataclass
from enum import StrEnum

from retrier.domain.breakers import BreakerTerms
from retrier.domain.streams import StreamRule
from retrier.policy import globs
from retrier.policy.backoff import Backoff
from retrier.policy.facts import Facts
from retrier.policy.globs import Globs
from retrier.policy.jitter import DelayRange, Jitter, Spread, range_of


class GivingUp(StrEnum):
    """What becomes of a message that a rule gives up: it is dead, or waits for a person."""

    DEAD = "dead"
    MANUAL = "manual"


class Unmatched(StrEnum):
    """What becomes of a failure that no rule matches: it waits for a person, or is dead."""

    WAIT = "wait"
    DEAD = "dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Conditions, joined by *and*; one without globs asks nothing."""

    queue: Globs = ()
    endpoint: Globs = ()
    message_type: Globs = ()
    exception: Globs = ()
    reason: Globs = ()

    def matches(self, facts: Facts, reason: str) -> bool:
        """Say whether a failure that has this reason matches all conditions."""
        pairs = (
            (self.queue, facts.queue),
            (self.endpoint, facts.endpoint),
            (self.message_type, facts.message_type),
            (self.exception, facts.exception_type),
            (self.reason, reason),
        )
        return all(globs.matches(wanted, text) for wanted, text in pairs if wanted)

    def covers(self, other: "Match") -> bool:
        """Say whether whatever matches the other matches this one, too.

        Each failure has a queue and a reason, so `*` there asks nothing; the rest may be missing.
        """
        pairs = (
            (self.queue, other.queue or globs.ANYTHING),
            (self.endpoint, other.endpoint),
            (self.message_type, other.message_type),
            (self.exception, other.exception),
            (self.reason, other.reason or globs.ANYTHING),
        )
        return all(theirs and globs.covers(ours, theirs) for ours, theirs in pairs if ours)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Retries what it matches until it has failed `attempts` times, then gives it up.

    0 and 1 attempts are the same: given up at the first failure. A reason in `never` is given up
    at once, and so is one that is not in `only`, if that names any. `stream` is stored with what it matches: whether earlier messages of a stream hold it.
    """

    name: str
    match: Match
    attempts: int
    backoff: Backoff
    jitter: Jitter = Spread.NONE
    never: Globs = ()
    only: Globs = ()
    then: GivingUp = GivingUp.DEAD
    stream: StreamRule | None = None
    breaker: BreakerTerms | None = None

    def delay_after(self, failures: int) -> DelayRange:
        """Return between which delays a message is retried after so many failures."""
        return range_of(self.backoff, self.jitter, failures)

    def delays(self) -> list[DelayRange]:
        """Return the delays of all retries that it makes, in their order."""
        return [self.delay_after(failures) for failures in range(1, self.attempts)]
