"""How this process is at this moment, and the metrics as one thing to scrape."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import choose_encoder

from retrier.app.metrics.archiving import ArchiveCounters
from retrier.app.metrics.collectors import FiguresCollector, ReadinessCollector
from retrier.app.metrics.counters import IngestionCounters, RetentionCounter, RetryCounters
from retrier.app.metrics.policies import PolicyCounters
from retrier.app.readiness import Readiness
from retrier.ingestion.ingestor import Ingestor
from retrier.processor.lease import Lease
from retrier.store.figures import ServiceFigures


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

    def expose(self, accept: str) -> tuple[str, bytes]:
        """Return content type and text of a scrape with this Accept header."""
        encode, content_type = choose_encoder(accept)
        return content_type, encode(self.registry)
