"""What this process sees: who leads, which queues are consumed, how much lies in them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import choose_encoder

from retrier.app.metrics.collectors import FiguresCollector, ReadinessCollector
from retrier.app.metrics.counters import IngestionCounters, RetryCounters
from retrier.app.readiness import Readiness
from retrier.ingestion.ingestor import Ingestor
from retrier.processor.lease import Lease
from retrier.store.queries.monitoring import ServiceFigures


class ProcessGauges:
    """How this process is, asked at each scrape; nothing here waits for anything."""

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
        self._consuming = Gauge(
            "retrier_ingestion_consuming",
            "1 if this process takes messages off the error queue, else 0.",
            ["queue"],
            registry=registry,
        )
        for queue in error_queues:
            # Also where nothing is ingested: one that no process consumes must show.
            self._consuming.labels(queue)

    def watch_lease(self, lease: Lease) -> None:
        """Tell whether this process is the processor."""
        self._leader.set_function(lambda: float(lease.held))

    def watch_ingestion(self, ingestors: Sequence[Ingestor]) -> None:
        """Tell of each error queue whether it is consumed."""
        for ingestor in ingestors:
            gauge = self._consuming.labels(ingestor.mapping.queue)
            gauge.set_function(partial(_is_consuming, ingestor))


def _is_consuming(ingestor: Ingestor) -> float:
    return float(ingestor.state.consuming)


class QueueGauges:
    """What the tick sees at the broker; a scrape asks no broker."""

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

    def reached(self, depths: Mapping[str, int | None]) -> None:
        """Note the depths of all queues; one that is missing has none."""
        self._up.set(1)
        for queue, depth in depths.items():
            gauge = self._staging if queue == self._staging_queue else self._error
            gauge.labels(queue).set(depth or 0)

    def lost(self) -> None:
        """Note that the broker is away; how much lies in its queues is not known then."""
        self._up.set(0)
        self._staging.clear()
        self._error.clear()


class Metrics:
    """The metrics, on a registry of their own: two services in one process do not mix."""

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
        self.queues = QueueGauges(self.registry, staging_queue)
        self.registry.register(FiguresCollector(read_figures))

    def watch_readiness(self, read: Callable[[], Readiness]) -> None:
        """Tell of each part whether it is ready."""
        self.registry.register(ReadinessCollector(read))

    def expose(self, accept: str) -> tuple[str, bytes]:
        """Return the content type and the text of a scrape whose Accept header this is."""
        encode, content_type = choose_encoder(accept)
        return content_type, encode(self.registry)
