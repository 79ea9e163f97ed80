"""All metrics of one process, and the text that Prometheus reads."""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from retrier.app.metrics.counters import IngestionCounters, RetryCounters
from retrier.app.metrics.gauges import ProcessGauges, QueueGauges
from retrier.app.metrics.readiness import ReadinessCollector
from retrier.app.metrics.standing import StandingCollector
from retrier.app.readiness import Readiness
from retrier.store.queries.standing import Standing


class Metrics:
    """The metrics, on a registry of their own: two services in one process do not mix."""

    def __init__(
        self,
        *,
        version: str,
        error_queues: Iterable[str],
        staging_queue: str,
        read_standing: Callable[[], Standing],
    ) -> None:
        self.registry = CollectorRegistry()
        self.process = ProcessGauges(self.registry, version, error_queues)
        self.ingestion = IngestionCounters(self.registry, error_queues)
        self.retries = RetryCounters(self.registry)
        self.queues = QueueGauges(self.registry, staging_queue)
        self.registry.register(StandingCollector(read_standing))

    def watch_readiness(self, read: Callable[[], Readiness]) -> None:
        """Tell of each part whether it is ready."""
        self.registry.register(ReadinessCollector(read))

    def expose(self, accept: str) -> tuple[str, bytes]:
        """Return the content type and the text of a scrape whose Accept header this is."""
        encode, content_type = choose_encoder(accept)
        return content_type, encode(self.registry)
