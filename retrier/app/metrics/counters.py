"""What is counted and timed as it happens, since this process was started."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Histogram

from retrier.domain.retry_batch import Ejected, RevertCause, WindowResult
from retrier.domain.wire import Outcome, Outgoing
from retrier.processor.watcher import Stage
from retrier.store.queries.monitoring import KINDS_OF_DELIVERY
from retrier.store.verbs.recording import Recorded

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
"""Upper bounds: a batch of one on an idle machine, to a batch of a thousand at a slow broker."""


class IngestionCounters:
    """Counts what is taken off the error queues, once it is committed."""

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

    def count(self, queue: str, recorded: Recorded) -> None:
        """Count one received batch."""
        for kind in KINDS_OF_DELIVERY:
            self._ingested.labels(queue, kind).inc(recorded.counts[kind])
        self._confirmed.inc(recorded.confirmed)
        self._failed_again.inc(recorded.failed_again)


class RetryCounters:
    """Watches the processor, and counts what was asked of it."""

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
        self._stage = Histogram(
            "retrier_stage_duration_seconds",
            "How long a batch took in a stage.",
            ["stage"],
            registry=registry,
            buckets=_SECONDS,
        )
        for cause in RevertCause:
            self._reverted.labels(cause)
        for stage in Stage:
            self._stage.labels(stage)

    def asked(self, messages: int) -> None:
        """Count the messages of a new operation."""
        self._asked.inc(messages)

    def sent(
        self, messages: Sequence[Outgoing], outcomes: Sequence[Outcome], began: datetime
    ) -> None:
        """Count nothing: what is sent is not recorded yet."""

    def recorded(self, window: WindowResult) -> None:
        """Count a window."""
        self._forwarded.inc(len(window.forwarded))
        self.ejected(window.reverted)

    def ejected(self, messages: Sequence[Ejected]) -> None:
        """Count what is unresolved again."""
        for message in messages:
            self._reverted.labels(message.cause).inc()

    def passed(self, stage: Stage, seconds: float) -> None:
        """Note how long a batch took."""
        self._stage.labels(stage).observe(seconds)

    def close(self) -> None:
        """Nothing is kept back."""
