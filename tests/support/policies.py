"""Small sets of policies by hand: a delay, a number of failures, and what each reason leads to."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from retrier.domain.decision import Dead, Decision, Judgement, Manual, RetryAt
from retrier.domain.streams import StreamRule
from retrier.policy.facts import Facts
from retrier.policy.policy_set import Dice, Judge
from tests.support.bench import Bench
from tests.support.scheduling import LONG_AGO, step_clock

NAME = "rest@12345678"
"""The policy that decides here."""


@dataclass(slots=True, kw_only=True)
class SomePolicies:
    """Retries what failed after a while; it is dead after `attempts` failures.

    With `then_manual` a person decides then. `never` lists reasons that are dead at once, `manual` those that a person decides about. A
    failure has the reason that `reasons` gives for its exception, and the rule of `streams`. `asked` collects what was judged.
    """

    attempts: int = 3
    delay: timedelta = timedelta(minutes=1)
    never: frozenset[str] = frozenset()
    manual: frozenset[str] = frozenset()
    reasons: Mapping[str, str] = field(default_factory=dict)
    then_manual: bool = False
    streams: Mapping[str, StreamRule] = field(default_factory=dict)
    notices: str | None = None
    configured: bool = True
    asked: deque[tuple[Facts, int]] = field(default_factory=lambda: deque(maxlen=100))

    def judge(self, facts: Facts, *, failures: int, now: datetime, dice: Dice) -> Judgement:
        """Decide, and remember what was asked."""
        self.asked.append((facts, failures))
        reason = self._classify(facts)
        decision = self._decide(reason, failures, now, dice)
        if facts.unsendable:
            decision = Dead(why="it can never be sent", policy=NAME)
        stream = self.streams.get(facts.exception_type or "")
        return Judgement(reason=reason, decision=decision, stream=stream)

    def judging(self) -> Judge:
        """Return a judge who goes by these policies, and throws no dice."""
        return Judge(in_force=lambda: self, dice=lambda: 0.0)

    def _classify(self, facts: Facts) -> str:
        if facts.unsendable:
            return "invalid_message"
        if facts.unsent:
            return "transport_unavailable"
        if facts.known is not None:
            return facts.known
        poison = facts.failure_reason == "delivery_limit" or facts.crashes > 10
        if poison or facts.rejected == "RETRIES_EXCEEDED":
            return "poison_message"
        return self.reasons.get(facts.exception_type or "", "handler_exception")

    def _decide(self, reason: str, failures: int, now: datetime, dice: Dice) -> Decision:
        if reason in self.manual:
            return Manual(why=f"{reason} is for a person", policy=NAME)
        if reason in self.never:
            return Dead(why=f"failed with {reason}, which is never retried", policy=NAME)
        if failures >= self.attempts and self.then_manual:
            return Manual(why=f"failed {failures} times", policy=NAME)
        if failures >= self.attempts:
            return Dead(why=f"failed {failures} times", policy=NAME)
        at = now + self.delay * (1 + dice())
        return RetryAt(at=at, why=f"failed {failures} of {self.attempts} times", policy=NAME)


def bring_due(bench: Bench) -> None:
    """Let the time of all scheduled messages come."""
    step_clock(bench.db, LONG_AGO)
