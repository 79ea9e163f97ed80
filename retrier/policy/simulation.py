"""Simulation: what other policies would have decided about failures that are stored."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import assert_never

from retrier.domain.decision import Dead, Decision, Manual, RetryAt
from retrier.domain.failed_message import Disposition
from retrier.domain.values import dataclass
from retrier.policy.facts import Facts
from retrier.policy.policy_set import PolicySet, unless_copy

SAMPLES = 10
"""Failures that are shown: those of different changes first."""

_MIDDLE = 0.5
"""What the dice show: a simulation says the same each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleDecision:
    """A decision and the rule that made it; None if no rule did."""

    rule: str | None
    decision: Disposition


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFailure:
    """A failure as it is stored, with the number of failures that counted then.

    `copy_of` names the message of which its message may be a copy.
    """

    unique_message_id: str
    received_at: datetime
    facts: Facts
    failures: int
    reason: str | None
    verdict: RuleDecision
    copy_of: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionChange:
    """What was decided, and what would be."""

    old: RuleDecision
    new: RuleDecision


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One failure that would be decided differently, and why."""

    failure: StoredFailure
    change: DecisionChange
    reason: str
    why: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """How many failures changed in which way, the most frequent first, and examples."""

    judged: int
    oldest: datetime | None
    counts: Mapping[DecisionChange, int]
    samples: tuple[Sample, ...]


class Simulation:
    """Judges failures one after the other, and keeps count."""

    def __init__(self, policies: PolicySet) -> None:
        self._policies = policies
        self._counts: Counter[DecisionChange] = Counter()
        self._first: dict[DecisionChange, Sample] = {}
        self._others: list[Sample] = []
        self._oldest: datetime | None = None

    def judge(self, failure: StoredFailure) -> None:
        """Judge a failure as if it happened now."""
        judged = self._policies.judge(
            failure.facts,
            failures=failure.failures,
            now=failure.received_at,
            dice=lambda: _MIDDLE,
        )
        judged = unless_copy(judged, failure.copy_of)
        change = DecisionChange(old=failure.verdict, new=_verdict_of(judged.decision))
        self._counts[change] += 1
        self._oldest = min(self._oldest or failure.received_at, failure.received_at)
        if change.old != change.new:
            why = judged.decision.why
            self._keep(Sample(failure=failure, change=change, reason=judged.reason, why=why))

    def _keep(self, sample: Sample) -> None:
        if sample.change not in self._first:
            self._first[sample.change] = sample
        elif len(self._others) < SAMPLES:
            self._others.append(sample)

    def result(self) -> Simulated:
        """Return what was found so far."""
        return Simulated(
            judged=self._counts.total(),
            oldest=self._oldest,
            counts=dict(self._counts.most_common()),
            samples=(*self._first.values(), *self._others)[:SAMPLES],
        )


def rule_of(policy: str | None) -> str | None:
    """Return the rule that a policy names: what stands before the hash of its set."""
    return None if policy is None else policy.partition("@")[0]


def _verdict_of(decision: Decision) -> RuleDecision:
    match decision:
        case RetryAt(policy=policy):
            return RuleDecision(rule=rule_of(policy), decision=Disposition.SCHEDULED)
        case Dead(policy=policy):
            return RuleDecision(rule=rule_of(policy), decision=Disposition.DEAD)
        case Manual(policy=policy):
            return RuleDecision(rule=rule_of(policy), decision=Disposition.MANUAL)
        case _ as never:
            assert_never(never)
