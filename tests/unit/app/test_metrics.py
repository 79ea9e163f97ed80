"""What a scrape shows of a process: everything from the start, and nothing that is not known."""

import pytest

from retrier.app.metrics import Metrics
from retrier.domain.retry_batch import Ejected, RevertCause, WindowResult
from retrier.errors import DatabaseUnavailable
from retrier.events.processor import BatchStaged, WindowRecorded
from retrier.events.service import RetryAsked
from tests.support.bench import STAGING
from tests.support.factories import ERROR_QUEUE
from tests.support.ingestion_bench import IngestionBench
from tests.support.metrics import Scrape, idle_metrics

FROM_THE_DATABASE = {
    "retrier_messages",
    "retrier_operations",
    "retrier_batches",
    "retrier_failed_imports",
    "retrier_lease_epoch",
    "retrier_ledger_difference",
    "retrier_oldest_unresolved_age_seconds",
    "retrier_pending_retries",
    "retrier_oldest_pending_age_seconds",
}


@pytest.fixture
def metrics() -> Metrics:
    """Give metrics that nothing was counted on yet."""
    return idle_metrics()


def away() -> None:
    raise DatabaseUnavailable("connection refused")


def test_every_counter_is_there_before_anything_happened(metrics: Metrics) -> None:
    counters = [each for each in Scrape.of(metrics).families if each.type == "counter"]

    shown = {sample.name: sample.value for each in counters for sample in each.samples}
    totals = {name for name in shown if name.endswith("_total")}
    assert len(totals) == len(counters) == 15
    assert {shown[name] for name in totals} == {0}


def test_no_metric_is_shown_twice(metrics: Metrics) -> None:
    names = [each.name for each in Scrape.of(metrics).families]

    assert sorted(set(names)) == sorted(names)


def test_the_database_is_shown_by_state(metrics: Metrics) -> None:
    scrape = Scrape.of(metrics)

    assert scrape.get("retrier_database_up") == 1
    assert scrape.get("retrier_messages", state="unresolved") == 3
    assert scrape.get("retrier_messages", state="archived") == 0
    assert scrape.get("retrier_operations", state="waiting") == 2
    assert scrape.get("retrier_batches", state="forwarding") == 1
    assert scrape.get("retrier_oldest_unresolved_age_seconds") == 120
    assert scrape.get("retrier_pending_retries") == 5
    assert scrape.get("retrier_oldest_pending_age_seconds") == 3600
    assert scrape.get("retrier_lease_epoch") == 7
    assert scrape.get("retrier_failed_imports") == 4


def test_what_does_not_add_up_is_shown_with_its_sign(metrics: Metrics) -> None:
    scrape = Scrape.of(metrics)

    assert scrape.get("retrier_ledger_difference", of="deliveries") == 1
    assert scrape.get("retrier_ledger_difference", of="messages") == 1


def test_a_database_that_is_away_costs_only_what_it_knows() -> None:
    metrics = Metrics(
        version="1", error_queues=[ERROR_QUEUE], staging_queue=STAGING, read_figures=away
    )

    scrape = Scrape.of(metrics)

    assert scrape.get("retrier_database_up") == 0
    assert scrape.names() & FROM_THE_DATABASE == set()
    assert scrape.get("retrier_leader") == 0


def test_nothing_is_asked_of_the_database_before_a_scrape() -> None:
    asked: list[int] = []

    Metrics(
        version="1",
        error_queues=[],
        staging_queue=STAGING,
        read_figures=lambda: asked.append(1) or away(),
    )

    assert asked == []


def test_the_queues_are_as_the_broker_told_last(metrics: Metrics) -> None:
    metrics.queues.reached({ERROR_QUEUE: 12, STAGING: None})

    scrape = Scrape.of(metrics)

    assert scrape.get("retrier_broker_up") == 1
    assert scrape.get("retrier_error_queue_messages", queue=ERROR_QUEUE) == 12
    assert scrape.get("retrier_staging_queue_messages", queue=STAGING) == 0


def test_of_a_broker_that_is_away_no_depth_is_known(metrics: Metrics) -> None:
    metrics.queues.reached({ERROR_QUEUE: 12, STAGING: 3})

    metrics.queues.lost()

    scrape = Scrape.of(metrics)
    assert scrape.get("retrier_broker_up") == 0
    assert scrape.get("retrier_error_queue_messages", queue=ERROR_QUEUE) is None
    assert scrape.get("retrier_staging_queue_messages", queue=STAGING) is None


def test_a_window_is_counted_by_what_became_of_its_messages(metrics: Metrics) -> None:
    reverted = tuple(
        Ejected(number=1, unique_message_id=str(cause), reason="no", cause=cause)
        for cause in (RevertCause.RETURNED, RevertCause.REFUSED, RevertCause.RETURNED)
    )

    result = WindowResult(forwarded=(1, 2), reverted=reverted)
    metrics.retries(WindowRecorded(batch_id="b", operation_id="o", result=result))

    scrape = Scrape.of(metrics)
    assert scrape.get("retrier_retries_forwarded_total") == 2
    assert scrape.get("retrier_retries_reverted_total", cause="returned") == 2
    assert scrape.get("retrier_retries_reverted_total", cause="refused") == 1
    assert scrape.get("retrier_retries_reverted_total", cause="ejected") == 0


def test_a_stage_is_timed(metrics: Metrics) -> None:
    metrics.retries(
        BatchStaged(batch_id="b", operation_id="o", staging_id="s", size=1, seconds=0.3, ejected=())
    )

    scrape = Scrape.of(metrics)
    bucket = "retrier_stage_duration_seconds_bucket"
    assert scrape.get("retrier_stage_duration_seconds_sum", stage="staging") == 0.3
    assert scrape.get(bucket, stage="staging", le="0.25") == 0
    assert scrape.get(bucket, stage="staging", le="0.5") == 1
    assert scrape.get("retrier_stage_duration_seconds_count", stage="marking") == 0


def test_a_queue_is_consumed_once_its_ingestor_works(metrics: Metrics) -> None:
    bench = IngestionBench()
    metrics.process.watch_ingestion([bench.ingestor])
    assert Scrape.of(metrics).get("retrier_ingestion_consuming", queue=ERROR_QUEUE) == 0

    bench.ingestor.ingest_once()

    assert Scrape.of(metrics).get("retrier_ingestion_consuming", queue=ERROR_QUEUE) == 1


def test_a_queue_that_this_process_does_not_consume_shows(metrics: Metrics) -> None:
    assert Scrape.of(metrics).get("retrier_ingestion_consuming", queue=ERROR_QUEUE) == 0


def test_each_part_is_ready_or_not(metrics: Metrics) -> None:
    scrape = Scrape.of(metrics)

    assert scrape.get("retrier_ready", part="database") == 1
    assert scrape.get("retrier_ready", part="broker") == 0


def test_openmetrics_is_told_to_whom_asks_for_it(metrics: Metrics) -> None:
    content_type, text = metrics.expose("application/openmetrics-text; version=1.0.0")

    assert content_type.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")


def test_two_services_in_one_process_count_apart(metrics: Metrics) -> None:
    other = idle_metrics()

    metrics.retries(RetryAsked(operation_id="o", total=5))

    assert Scrape.of(metrics).get("retrier_retries_asked_total") == 5
    assert Scrape.of(other).get("retrier_retries_asked_total") == 0
