"""The metrics of Retrier: the only code that uses the Prometheus client."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from retrier.app.readiness import Readiness
from retrier.domain.audit import AuditHead
from retrier.domain.breakers import BreakerState
from retrier.domain.decision import Decided
from retrier.domain.failed_message import Disposition, FailedMessageStatus
from retrier.domain.recording import Recorded
from retrier.domain.retention import Old
from retrier.domain.retry_batch import Ejected, RetryBatchStatus, RevertCause
from retrier.domain.retry_operation import RetryOperationState
from retrier.domain.streams import HeadState
from retrier.errors import DatabaseUnavailable
from retrier.events.event import Event
from retrier.events.ingestion import BatchStored, StoredAlone
from retrier.events.processor import (
    ArchiveAsked,
    ArchiveChunkDone,
    ArchiveCompleted,
    BatchForwarded,
    BatchMarked,
    BatchStaged,
    ChunkDeleted,
    DoneAtOnce,
    LeaseHeld,
    WindowRecorded,
)
from retrier.events.service import ChunkPresumed, RetryAsked
from retrier.ingestion.ingestor import Ingestor
from retrier.policy.reasons import BUILT_IN
from retrier.processor.lease import Lease
from retrier.store.figures import KINDS_OF_DELIVERY, ServiceFigures
from retrier.store.streams import HeldFigures
from retrier.store.words import MOST_COUNTED, WordLag

ACTS = ("archive", "unarchive", "resolve")


class ArchiveCounters:
    """A subscriber that counts what is asked for, and what is done, once that is committed."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._asked = Counter(
            "retrier_archive_operations_asked",
            "Requests to archive, unarchive or resolve messages that came to this process.",
            ["act"],
            registry=registry,
        )
        self._completed = Counter(
            "retrier_archive_operations_completed",
            "Such requests that this process has done to their end.",
            ["act"],
            registry=registry,
        )
        self._messages = Counter(
            "retrier_archive_operations_messages",
            "Messages that such requests have changed, or left as they were.",
            ["act", "outcome"],
            registry=registry,
        )
        for act in ACTS:
            self._asked.labels(act)
            self._completed.labels(act)
            self._count(act, 0, 0)

    def __call__(self, event: Event) -> None:
        """Count an event."""
        match event:
            case ArchiveAsked(act=act):
                self._asked.labels(act).inc()
            case DoneAtOnce(act=act, done=done, skipped=skipped):
                self._asked.labels(act).inc()
                self._count(act, done, skipped)
                self._completed.labels(act).inc()
            case ArchiveChunkDone(act=act, done=done, skipped=skipped):
                self._count(act, done, skipped)
            case ArchiveCompleted(act=act):
                self._completed.labels(act).inc()
            case _:
                pass

    def _count(self, act: str, done: int, skipped: int) -> None:
        self._messages.labels(act, "changed").inc(done)
        self._messages.labels(act, "skipped").inc(skipped)


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


S = TypeVar("S", bound=str)

_OVER = frozenset({RetryOperationState.COMPLETED, RetryOperationState.CANCELLED})
_ALIVE = [state for state in RetryOperationState if state not in _OVER]


class FiguresCollector(Collector):
    """Exposes the counts of the database, or only `retrier_database_up` 0 if it is away."""

    def __init__(self, read: Callable[[], ServiceFigures]) -> None:
        self._read = read

    def describe(self) -> Iterable[Metric]:
        """Return nothing: otherwise the registry would call `collect`, and so the database."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Return the metrics of this scrape."""
        try:
            figures = self._read()
        except DatabaseUnavailable:
            yield _up(0)
            return
        yield _up(1)
        yield from _describe(figures)


def _up(value: int) -> Metric:
    words = "1 if the database answered when it was last looked at, else 0."
    return GaugeMetricFamily("retrier_database_up", words, value=value)


def _describe(figures: ServiceFigures) -> Iterator[Metric]:
    yield _by_state(
        "retrier_messages", "Failed messages", FailedMessageStatus, figures.ledger.stored
    )
    yield _by_state("retrier_operations", "Retry operations alive", _ALIVE, figures.operations)
    yield _by_state("retrier_batches", "Retry batches alive", RetryBatchStatus, figures.batches)
    oldest = figures.oldest_unresolved
    yield GaugeMetricFamily(
        "retrier_oldest_unresolved_age_seconds",
        "How long ago the unresolved message that waits longest has failed; 0 if there is none.",
        value=oldest.total_seconds() if oldest else 0,
    )
    yield GaugeMetricFamily(
        "retrier_pending_retries",
        "Retries that were sent and have neither succeeded nor failed again.",
        value=figures.pending,
    )
    pending = figures.oldest_pending
    yield GaugeMetricFamily(
        "retrier_oldest_pending_age_seconds",
        "How long ago the pending retry that waits longest was sent; 0 if there is none.",
        value=pending.total_seconds() if pending else 0,
    )
    yield GaugeMetricFamily(
        "retrier_failed_imports", "Failed imports kept.", value=figures.failed_imports
    )
    yield GaugeMetricFamily(
        "retrier_outgoing_messages",
        "Copies of failures, and notices of dead messages, that wait to be sent.",
        value=figures.outgoing,
    )
    waited = figures.oldest_outgoing
    yield GaugeMetricFamily(
        "retrier_oldest_outgoing_age_seconds",
        "How long the oldest of these has waited; 0 if there is none.",
        value=waited.total_seconds() if waited else 0,
    )
    yield from _describe_breakers(figures)
    yield from _describe_streams(figures.held)
    yield from _describe_decided(figures)
    yield GaugeMetricFamily(
        "retrier_policy_sets",
        "By how many different sets of policies the processes judge; 0 without policies.",
        value=figures.policy_sets,
    )
    yield GaugeMetricFamily(
        "retrier_lease_epoch",
        "How often the processor's lease was taken.",
        value=figures.epoch,
    )
    yield from _describe_words(figures.words)
    yield _differences(figures)


def _describe_words(lag: WordLag | None) -> Iterator[Metric]:
    family = GaugeMetricFamily(
        "retrier_unread_words_messages",
        f"Messages whose words are still to be read for full text, up to {MOST_COUNTED:,} of a kind.",
        labels=["kind"],
    )
    family.add_metric(["new"], lag.waiting if lag else 0)
    family.add_metric(["backlog"], lag.backlog if lag else 0)
    yield family
    yield GaugeMetricFamily(
        "retrier_unread_words_age_seconds",
        "How long ago the first of the new ones came; 0 if there is none.",
        value=lag.seconds if lag else 0,
    )


def _describe_breakers(figures: ServiceFigures) -> Iterator[Metric]:
    yield _by_state("retrier_breakers", "Breakers", BreakerState, figures.breakers)
    family = GaugeMetricFamily(
        "retrier_breaker_open_seconds",
        "For how long messages have waited for a breaker that is not closed.",
        labels=["breaker"],
    )
    for key, age in figures.open_breakers.items():
        family.add_metric([key], age.total_seconds())
    yield family
    yield GaugeMetricFamily(
        "retrier_left_out_messages",
        "Messages that operations leave out, because something holds them.",
        value=figures.left_out,
    )


def _describe_streams(held: HeldFigures) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "retrier_held_messages",
        "Messages that an earlier message of their stream holds.",
        value=held.messages,
    )
    yield _by_state(
        "retrier_held_streams",
        "Streams with such messages, by what their first message waits for",
        HeadState,
        held.streams,
        label="head",
    )
    oldest = held.oldest_head
    yield GaugeMetricFamily(
        "retrier_oldest_head_age_seconds",
        "For how long the first message of such a stream has not changed; 0 if there is none.",
        value=oldest.total_seconds() if oldest else 0,
    )


def _describe_decided(figures: ServiceFigures) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "retrier_dead_messages",
        "Unresolved messages that were given up.",
        value=figures.dead,
    )
    yield GaugeMetricFamily(
        "retrier_scheduled_messages",
        "Unresolved messages that a policy will retry.",
        value=figures.scheduled,
    )
    due = figures.oldest_due
    yield GaugeMetricFamily(
        "retrier_oldest_due_age_seconds",
        "How long ago a retry by policy was due that no batch has claimed yet; 0 if there is none.",
        value=due.total_seconds() if due else 0,
    )


def _differences(figures: ServiceFigures) -> Metric:
    family = GaugeMetricFamily(
        "retrier_ledger_difference",
        "What was counted less what there is; not 0 means that something is lost or miscounted.",
        labels=["of"],
    )
    family.add_metric(["deliveries"], figures.ledger.uncounted_deliveries)
    family.add_metric(["messages"], figures.ledger.missing_messages)
    return family


def _by_state(
    name: str, words: str, states: Iterable[S], counts: Mapping[S, int], label: str = "state"
) -> Metric:
    """Return a value for every state, also 0: an alert on a series that vanishes never fires."""
    by = ", by state." if label == "state" else "."
    family = GaugeMetricFamily(name, f"{words}{by}", labels=[label])
    for state in states:
        family.add_metric([state], counts.get(state, 0))
    return family


class ReadinessCollector(Collector):
    """Reads the readiness board at each scrape; no part makes it wait for more than seconds."""

    def __init__(self, read: Callable[[], Readiness]) -> None:
        self._read = read

    def describe(self) -> Iterable[Metric]:
        """Return nothing: otherwise the registry would call `collect`, and so the parts."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Return the metric of this scrape."""
        family = GaugeMetricFamily(
            "retrier_ready", "1 if the part of this process works, else 0.", labels=["part"]
        )
        for part, (ready, _reason) in self._read().items():
            family.add_metric([part], float(ready))
        yield family


class AuditState(Protocol):
    """What is shown of the audit of this process."""

    @property
    def head(self) -> AuditHead:
        """The end of its chain."""
        ...

    @property
    def written(self) -> int:
        """How many lines this process has written."""
        ...

    @property
    def is_well(self) -> bool:
        """Whether lines can be written."""
        ...


class AuditCollector(Collector):
    """Shows the head of the audit, so that whoever scrapes keeps it elsewhere."""

    def __init__(self, audit: AuditState) -> None:
        self._audit = audit

    def describe(self) -> Iterable[Metric]:
        """Return nothing: otherwise the registry would call `collect`."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Return the metrics of this scrape."""
        yield CounterMetricFamily(
            "retrier_audit_lines",
            "Lines of the audit that this process has written.",
            value=self._audit.written,
        )
        head = GaugeMetricFamily(
            "retrier_audit_head",
            "The number of the last line of the audit, with its hash as the label.",
            labels=["sha256"],
        )
        last = self._audit.head
        head.add_metric([last.sha256 or ""], last.number)
        yield head
        yield GaugeMetricFamily(
            "retrier_audit_up",
            "1 if the audit can be written, else 0: then whatever is asked for is refused.",
            value=float(self._audit.is_well),
        )


class RequestsCollector(Collector):
    """Shows what this process has asked of a broker that is paid by the request."""

    def __init__(self, read: Callable[[], Mapping[str, int]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        """Yield a counter, with a label for what was asked for."""
        told = CounterMetricFamily(
            "retrier_broker_requests",
            "Requests that this process has sent to a broker that is paid by the request.",
            labels=["action"],
        )
        for action, count in self._read().items():
            told.add_metric([action], count)
        yield told


class ProcessGauges:
    """The present state of this process, read at each scrape without any wait."""

    def __init__(
        self, registry: CollectorRegistry, version: str, error_queues: Iterable[str]
    ) -> None:
        info = Gauge(
            "retrier_info", "1, with the version as its label.", ["version"], registry=registry
        )
        info.labels(version).set(1)
        self._leader = Gauge(
            "retrier_leader", "1 if this process is the processor, else 0.", registry=registry
        )
        self._policies = Gauge(
            "retrier_policies_valid",
            "1 if the policies in force are those of the settings, 0 if the file is wrong.",
            registry=registry,
        )
        self._policies.set(1)
        self._consuming = Gauge(
            "retrier_ingestion_consuming",
            "1 if this process takes messages off the error queue, else 0.",
            ["queue"],
            registry=registry,
        )
        for queue in error_queues:
            # Also in processes without ingestion: a queue that no process consumes must show 0.
            self._consuming.labels(queue)

    def watch_lease(self, lease: Lease) -> None:
        """Show from now on whether this process holds the lease."""
        self._leader.set_function(lambda: float(lease.held))

    def watch_policies(self, are_valid: Callable[[], bool]) -> None:
        """Show from now on whether the policies in force are those of the settings."""
        self._policies.set_function(lambda: float(are_valid()))

    def watch_ingestion(self, ingestors: Sequence[Ingestor]) -> None:
        """Show from now on for each error queue whether this process consumes it."""
        for ingestor in ingestors:
            gauge = self._consuming.labels(ingestor.mapping.queue)
            gauge.set_function(partial(_is_consuming, ingestor))


def _is_consuming(ingestor: Ingestor) -> float:
    return float(ingestor.state.consuming)


class QueueGauges:
    """Queue depths, set by a recurring task: a scrape itself does not ask the broker."""

    def __init__(self, registry: CollectorRegistry, staging_queue: str) -> None:
        self._staging_queue = staging_queue
        self._up = Gauge(
            "retrier_broker_up",
            "1 if the broker could be reached when it was last looked at, else 0.",
            registry=registry,
        )
        self._staging = Gauge(
            "retrier_staging_queue_messages",
            "Messages ready in the staging queue.",
            ["queue"],
            registry=registry,
        )
        self._error = Gauge(
            "retrier_error_queue_messages",
            "Messages ready in an error queue.",
            ["queue"],
            registry=registry,
        )
        self._exists = Gauge(
            "retrier_error_queue_exists",
            "1 if the error queue existed when it was last looked at, else 0.",
            ["queue"],
            registry=registry,
        )

    def reached(self, depths: Mapping[str, int | None]) -> None:
        """Set the depths of all queues; a missing queue has 0."""
        self._up.set(1)
        for queue, depth in depths.items():
            gauge = self._staging if queue == self._staging_queue else self._error
            gauge.labels(queue).set(depth or 0)
            if gauge is self._error:
                self._exists.labels(queue).set(depth is not None)

    def lost(self) -> None:
        """Set the broker to down, and remove the depths: they are unknown then."""
        self._up.set(0)
        self._staging.clear()
        self._error.clear()
        self._exists.clear()


class Metrics:
    """All metrics, on a registry of their own: two services in one process stay separate."""

    def __init__(
        self,
        *,
        version: str,
        error_queues: Iterable[str],
        staging_queue: str,
        read_figures: Callable[[], ServiceFigures],
    ) -> None:
        self.registry = CollectorRegistry()
        self.process = ProcessGauges(self.registry, version, error_queues)
        self.ingestion = IngestionCounters(self.registry, error_queues)
        self.retries = RetryCounters(self.registry)
        self.retention = RetentionCounter(self.registry)
        self.archives = ArchiveCounters(self.registry)
        self.policies = PolicyCounters(self.registry)
        self.queues = QueueGauges(self.registry, staging_queue)
        self.registry.register(FiguresCollector(read_figures))

    def watch_readiness(self, read: Callable[[], Readiness]) -> None:
        """Show from now on for each part whether it is ready."""
        self.registry.register(ReadinessCollector(read))

    def watch_requests(self, read: Callable[[], Mapping[str, int]]) -> None:
        """Show from now on how many requests were sent to the broker."""
        self.registry.register(RequestsCollector(read))

    def watch_audit(self, audit: AuditState) -> None:
        """Show from now on the audit of this process."""
        self.registry.register(AuditCollector(audit))

    def expose(self, accept: str) -> tuple[str, bytes]:
        """Return content type and text of a scrape with this Accept header."""
        encode, content_type = choose_encoder(accept)
        return content_type, encode(self.registry)
