"""Metrics of a process that does nothing, and how to read a scrape."""

from collections.abc import Iterator
from datetime import timedelta

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from retrier.app.metrics import Metrics
from retrier.domain.breakers import BreakerState
from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.retry_batch import RetryBatchStatus
from retrier.domain.retry_operation import RetryOperationState
from retrier.store.figures import Ledger, ServiceFigures
from tests.support.auditing import ListedLines, journal_on
from tests.support.bench import STAGING
from tests.support.factories import ERROR_QUEUE

STANDING = ServiceFigures(
    ledger=Ledger(
        entries={"taken_off": 9, "new": 5, "repeated": 3},
        stored={FailedMessageStatus.UNRESOLVED: 3, FailedMessageStatus.RESOLVED: 1},
    ),
    operations={RetryOperationState.WAITING: 2},
    batches={RetryBatchStatus.FORWARDING: 1},
    failed_imports=4,
    oldest_unresolved=timedelta(minutes=2),
    pending=5,
    oldest_pending=timedelta(hours=1),
    epoch=7,
    outgoing=6,
    oldest_outgoing=timedelta(minutes=3),
    breakers={BreakerState.CLOSED: 2, BreakerState.OPEN: 1},
    open_breakers={"orders": timedelta(minutes=4)},
    left_out=8,
)
READINESS = {
    "database": (True, "reached"),
    "broker": (False, "connection refused"),
    "ingestion": (True, "error: consuming"),
    "processor": (True, "standing by"),
}


def idle_metrics() -> Metrics:
    """Return metrics that nothing was counted on yet."""
    metrics = Metrics(
        version="1.2.3",
        error_queues=[ERROR_QUEUE],
        staging_queue=STAGING,
        read_figures=lambda: STANDING,
    )
    metrics.watch_readiness(lambda: READINESS)
    metrics.watch_requests(lambda: {"ReceiveMessage": 0})
    metrics.watch_audit(journal_on(ListedLines()))
    return metrics


class Scrape:
    """What Prometheus reads, by name and labels."""

    def __init__(self, text: str) -> None:
        self.families: list[Metric] = list(text_string_to_metric_families(text))

    @classmethod
    def of(cls, metrics: Metrics) -> "Scrape":
        """Scrape metrics of this process."""
        return cls(metrics.expose("")[1].decode())

    def get(self, name: str, **labels: str) -> float | None:
        """Return the value of one sample, or None if there is none."""
        found = [
            each.value for each in self.samples() if (each.name, each.labels) == (name, labels)
        ]
        return found[0] if found else None

    def names(self) -> set[str]:
        """Return the names of all samples."""
        return {each.name for each in self.samples()}

    def samples(self) -> Iterator[Sample]:
        """Walk all samples, without the moments at which counters were made."""
        for family in self.families:
            yield from (each for each in family.samples if not each.name.endswith("_created"))
