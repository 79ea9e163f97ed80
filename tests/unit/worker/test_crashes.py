"""How a worker counts the crashes of a message."""

import pytest

from retrier.worker.crashes import Poison, Startable, Uncounted, Verdict, judge_delivery


@pytest.mark.parametrize(
    ("headers", "redelivered", "verdict"),
    [
        ({}, False, Startable(0)),
        ({"x-delivery-count": 1}, True, Startable(1)),
        ({"x-delivery-count": 10}, True, Startable(10)),
        ({"x-delivery-count": 11}, True, Poison(11)),
        ({"x-delivery-count": 3, "x-caf-worker-retry": "7"}, True, Startable(10)),
        ({"x-delivery-count": 4, "x-caf-worker-retry": "7"}, True, Poison(11)),
        ({"x-delivery-count": 9}, False, Startable(0)),
    ],
    ids=["first", "once", "tenth", "eleventh", "carried over", "too often together", "stale"],
)
def test_a_queue_that_counts_is_believed(
    headers: dict[str, object], *, redelivered: bool, verdict: Verdict
) -> None:
    assert judge_delivery(headers, redelivered=redelivered, counted=True, limit=10) == verdict


@pytest.mark.parametrize(
    ("headers", "redelivered", "verdict"),
    [
        ({}, False, Startable(0)),
        ({}, True, Uncounted(1)),
        ({"x-caf-worker-retry": "1"}, False, Startable(1)),
        ({"x-caf-worker-retry": 9}, True, Uncounted(10)),
        ({"x-caf-worker-retry": "10"}, False, Startable(10)),
        ({"x-caf-worker-retry": "10"}, True, Poison(11)),
        ({"x-caf-worker-retry": "soon", "x-delivery-count": 5}, True, Uncounted(1)),
    ],
    ids=["first", "once", "copy", "ninth", "last copy", "eleventh", "nonsense"],
)
def test_elsewhere_a_redelivery_is_counted_in_a_header(
    headers: dict[str, object], *, redelivered: bool, verdict: Verdict
) -> None:
    assert judge_delivery(headers, redelivered=redelivered, counted=False, limit=10) == verdict


@pytest.mark.parametrize("counted", [True, False])
def test_a_handler_is_started_once_and_limit_times_more(*, counted: bool) -> None:
    starts = 0
    headers: dict[str, object] = {}
    verdict: Verdict = judge_delivery(headers, redelivered=False, counted=counted, limit=10)
    while not isinstance(verdict, Poison):
        if isinstance(verdict, Startable):
            starts += 1
        else:
            headers["x-caf-worker-retry"] = str(verdict.crashes)
        is_crash = isinstance(verdict, Startable)
        headers |= {"x-delivery-count": starts} if counted else {}
        verdict = judge_delivery(headers, redelivered=is_crash, counted=counted, limit=10)

    assert starts == 11
    assert verdict == Poison(11)
