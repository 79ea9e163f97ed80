"""Whether the parts of this process are ready, as /health/ready tells it."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from retrier.app.readiness import Readiness


class ReadinessCollector(Collector):
    """Asks the board at each scrape; no part keeps it waiting for more than seconds."""

    def __init__(self, read: Callable[[], Readiness]) -> None:
        self._read = read

    def describe(self) -> Iterable[Metric]:
        """Name nothing beforehand: registering must not ask the parts."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Return the metric of this scrape."""
        family = GaugeMetricFamily(
            "retrier_ready", "1 if the part of this process works, else 0.", labels=["part"]
        )
        for part, (ready, _reason) in self._read().items():
            family.add_metric([part], float(ready))
        yield family
