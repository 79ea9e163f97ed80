"""What is counted and timed as it happens, since this process was started."""

from collections.abc import Iterable
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Histogram

from retrier.domain.receipt import Recorded
from retrier.domain.retention import Old
from retrier.domain.retry_batch import Ejected, RetryBatchStatus, RevertCause
from retrier.events.event import Event
from retrier.events.ingestion import BatchStored, StoredAlone
from retrier.events.processor import (
    BatchForwarded,
    BatchMarked,
    BatchStaged,
    ChunkDeleted,
    LeaseHeld,
    WindowRecorded,
)
from retrier.events.service import ChunkPresumed, RetryAsked
from retrier.store.figures import KINDS_OF_DELIVERY

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
"""Bucket bounds: from a batch of 1 on an idle machine to a batch of 1000 at a slow broker."""
_HELD_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15)
"""Bucket bounds; what is above 0.5 should not be."""


class IngestionCounters:
    """A subscriber that counts what is taken off the error queues, once that is committed."""

    def __init__(self, registry: CollectorRegistry, error_queues: Iterable[str]) -> None:
        self._ingested = Counter(
            "retrier_ingested",
            "Messages taken off an error queue, by what they turned out to be, as in the ledger.",
            ["queue", "kind"],
            registry=registry,
        )
        self._confirmed = Counter(
            "retrier_retries_confirmed",
            "Messages that a confirmation has resolved.",
            registry=registry,
        )
        self._failed_again = Counter(
            "retrier_retries_failed_again",
            "Messages that came back to an error queue after their retry was sent.",
            registry=registry,
        )
        for queue in error_queues:
            for kind in KINDS_OF_DELIVERY:
                self._ingested.labels(queue, kind)

    def __call__(self, event: Event) -> None:
        """Count one transaction."""
        match event:
            case BatchStored(queue=queue, recorded=Recorded() as recorded):
                self._count(queue, recorded)
            case StoredAlone(queue=queue, recorded=recorded):
                self._count(queue, recorded)
            case _:
                pass

    def _count(self, queue: str, recorded: Recorded) -> None:
        for kind in KINDS_OF_DELIVERY:
            self._ingested.labels(queue, kind).inc(recorded.counts[kind])
        self._confirmed.inc(recorded.confirmed)
        self._failed_again.inc(recorded.failed_again)


class RetryCounters:
    """A subscriber that counts what is asked for, sent and reverted, and times the stages."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._asked = Counter(
            "retrier_retries_asked",
            "Messages for which a retry was asked for at this process.",
            registry=registry,
        )
        self._forwarded = Counter(
            "retrier_retries_forwarded",
            "Messages whose retry the broker has confirmed and the database has recorded.",
            registry=registry,
        )
        self._reverted = Counter(
            "retrier_retries_reverted",
            "Messages that are unresolved again because their retry could not be sent.",
            ["cause"],
            registry=registry,
        )
        self._presumed = Counter(
            "retrier_retries_presumed",
            "Messages presumed to have succeeded, because their retry did not come back.",
            registry=registry,
        )
        self._stage = Histogram(
            "retrier_stage_duration_seconds",
            "How long a batch took in a stage.",
            ["stage"],
            registry=registry,
            buckets=_SECONDS,
        )
        self._held = Histogram(
            "retrier_lease_transaction_seconds",
            "How long a transaction of the processor held the lease.",
            registry=registry,
            buckets=_HELD_SECONDS,
        )
        for cause in RevertCause:
            self._reverted.labels(cause)
        for stage in RetryBatchStatus:
            self._stage.labels(stage)

    def __call__(self, event: Event) -> None:
        """Count an event."""
        match event:
            case RetryAsked(total=total):
                self._asked.inc(total)
            case BatchMarked(seconds=seconds):
                self._stage.labels(RetryBatchStatus.MARKING).observe(seconds)
            case BatchStaged(seconds=seconds, ejected=ejected):
                self._stage.labels(RetryBatchStatus.STAGING).observe(seconds)
                self._count_reverted(ejected)
            case WindowRecorded(result=result):
                self._forwarded.inc(len(result.forwarded))
                self._count_reverted(result.reverted)
            case ChunkPresumed(count=count):
                self._presumed.inc(count)
            case LeaseHeld(seconds=seconds):
                self._held.observe(seconds)
            case BatchForwarded(seconds=seconds):
                self._stage.labels(RetryBatchStatus.FORWARDING).observe(seconds)
            case _:
                pass

    def _count_reverted(self, messages: Iterable[Ejected]) -> None:
        for message in messages:
            self._reverted.labels(message.cause).inc()


class RetentionCounter:
    """A subscriber that counts what is deleted for its age, once that is committed."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._deleted = Counter(
            "retrier_retention_deleted",
            "What was deleted because it was older than it is kept.",
            ["kind"],
            registry=registry,
        )
        for each in get_args(Old):
            self._deleted.labels(each.kind)

    def __call__(self, event: Event) -> None:
        """Count one chunk."""
        if isinstance(event, ChunkDeleted):
            self._deleted.labels(event.old.kind).inc(event.count)
