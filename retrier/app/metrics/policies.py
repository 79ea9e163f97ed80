"""What is counted of failures by reason, and of what policies decide."""

from collections.abc import Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter

from retrier.domain.decision import Decided
from retrier.domain.failed_message import Disposition
from retrier.domain.receipt import Recorded
from retrier.events.event import Event
from retrier.events.ingestion import BatchStored, StoredAlone
from retrier.events.processor import BatchStaged, WindowRecorded
from retrier.policy.reasons import BUILT_IN

MOST_OF_OTHERS = 50
"""Reasons of rules that get a label of their own: any text may be a reason, and labels cost memory."""

OTHER = "other"
"""Stands for all further reasons."""

NO_POLICY = "none"
"""Stands for the policy where no rule decided."""


class PolicyCounters:
    """A subscriber that counts failures by reason and decisions by rule, once they are committed."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._failures = Counter(
            "retrier_failures",
            "Failures stored, by the reason they were classified under.",
            ["reason"],
            registry=registry,
        )
        self._decisions = Counter(
            "retrier_decisions",
            "Messages that became unresolved, by the rule that decided and by what it decided.",
            ["policy", "decision"],
            registry=registry,
        )
        self._shown = {*BUILT_IN, OTHER}
        for reason in sorted(self._shown):
            self._failures.labels(reason)
        for disposition in Disposition:
            self._decisions.labels(NO_POLICY, disposition)

    def __call__(self, event: Event) -> None:
        """Count one transaction."""
        match event:
            case BatchStored(recorded=Recorded() as recorded) | StoredAlone(recorded=recorded):
                self._count_failures(recorded.reasons)
                self._count_decisions(recorded.decided)
            case WindowRecorded(decided=decided) | BatchStaged(decided=decided):
                self._count_decisions(decided)
            case _:
                pass

    def _count_failures(self, reasons: Mapping[str, int]) -> None:
        for reason, count in reasons.items():
            if len(self._shown) <= len(BUILT_IN) + MOST_OF_OTHERS:
                self._shown.add(reason)
            self._failures.labels(reason if reason in self._shown else OTHER).inc(count)

    def _count_decisions(self, decided: Sequence[Decided]) -> None:
        for each in decided:
            rule = each.policy.rpartition("@")[0] or each.policy if each.policy else NO_POLICY
            self._decisions.labels(rule, each.disposition).inc(each.count)
