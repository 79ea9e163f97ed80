"""Metrics read at each scrape: counts from the database, and whether the parts are ready."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from retrier.app.readiness import Readiness
from retrier.domain.breakers import BreakerState
from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.retry_batch import RetryBatchStatus
from retrier.domain.retry_operation import RetryOperationState
from retrier.domain.streams import HeadState
from retrier.errors import DatabaseUnavailable
from retrier.store.figures import ServiceFigures
from retrier.store.streams import HeldFigures

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
    yield _differences(figures)


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
