"""What is counted of failures and decisions: bounded labels, whatever rules name."""

import pytest

from retrier.app.metrics import MOST_OF_OTHERS, Metrics
from retrier.domain.decision import Decided
from retrier.domain.failed_message import Disposition
from retrier.domain.recording import Receipt, Recorded
from retrier.domain.retry_batch import WindowResult
from retrier.events.ingestion import BatchStored, StoredAlone
from retrier.events.processor import WindowRecorded
from tests.support.metrics import Scrape, idle_metrics

NOTHING = Receipt(
    attempts=(), changes=(), imports=(), new=0, repeated=0, redelivered=0, confirmations=0
)
DEAD = Decided(
    disposition=Disposition.DEAD, policy="pay@me@12345678", count=3, reasons={"unknown": 3}
)


@pytest.fixture
def metrics() -> Metrics:
    return idle_metrics()


def recorded(*decided: Decided, **reasons: int) -> Recorded:
    return Recorded(
        receipt=NOTHING, counts={}, confirmed=0, failed_again=0, reasons=reasons, decided=decided
    )


def test_failures_are_counted_by_reason(metrics: Metrics) -> None:
    stored = recorded(timeout_exceeded=2, unknown=1)
    metrics.policies(BatchStored(queue="error", recorded=stored, noteworthy=()))
    metrics.policies(StoredAlone(queue="error", recorded=recorded(unknown=1)))

    scrape = Scrape.of(metrics)
    assert scrape.get("retrier_failures_total", reason="timeout_exceeded") == 2
    assert scrape.get("retrier_failures_total", reason="unknown") == 2


def test_a_thousand_reasons_of_rules_make_no_thousand_labels(metrics: Metrics) -> None:
    for number in range(1000):
        stored = recorded(**{f"R{number}": 1})
        metrics.policies(BatchStored(queue="error", recorded=stored, noteworthy=()))

    scrape = Scrape.of(metrics)
    assert scrape.get("retrier_failures_total", reason="R0") == 1
    assert scrape.get("retrier_failures_total", reason="other") == 1000 - MOST_OF_OTHERS
    assert scrape.get("retrier_failures_total", reason="R999") is None


def test_decisions_are_counted_by_rule_and_not_by_set(metrics: Metrics) -> None:
    metrics.policies(BatchStored(queue="error", recorded=recorded(DEAD), noteworthy=()))

    scrape = Scrape.of(metrics)
    assert scrape.get("retrier_decisions_total", policy="pay@me", decision="dead") == 3


def test_decisions_about_reverts_are_counted_too(metrics: Metrics) -> None:
    window = WindowRecorded(
        batch_id="b", operation_id="o", result=WindowResult(), decided=[DEAD, DEAD]
    )

    metrics.policies(window)

    scrape = Scrape.of(metrics)
    assert scrape.get("retrier_decisions_total", policy="pay@me", decision="dead") == 6


def test_what_no_rule_decided_is_counted_too(metrics: Metrics) -> None:
    waits = Decided(disposition=Disposition.MANUAL, policy=None, count=2, reasons={"unknown": 2})
    metrics.policies(BatchStored(queue="error", recorded=recorded(waits), noteworthy=()))

    scrape = Scrape.of(metrics)
    assert scrape.get("retrier_decisions_total", policy="none", decision="manual") == 2


def test_a_batch_that_was_stored_one_by_one_is_counted_once(metrics: Metrics) -> None:
    metrics.policies(BatchStored(queue="error", recorded=None, noteworthy=()))

    assert Scrape.of(metrics).get("retrier_failures_total", reason="unknown") == 0
