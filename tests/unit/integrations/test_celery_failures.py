"""What a request of Celery's is told as, and what of its message is kept."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from celery.exceptions import Reject, SoftTimeLimitExceeded, TimeLimitExceeded

from retrier.integrations.celery import (
    Publication,
    count_runs,
    find_queue,
    make_failed,
    make_problem,
    name_node,
    unwrap,
)
from retrier.integrations.failures import FailedTask
from retrier.worker.outcomes import Problem, Reason

AT = datetime(2026, 5, 4, 12, tzinfo=UTC)
FAILED = FailedTask(
    queue="tasks",
    name="shop.pack",
    worker="shop",
    process=4711,
    node="packers@box-1",
    attempts=3,
    at=AT,
    problem=Problem(reason=Reason.EXCEPTION, type="Unpaid", message="7", stack_trace="line 1"),
)


def message(**changes: Any) -> Any:
    """Make what Kombu gives for a message."""
    return SimpleNamespace(
        **{
            "body": b"\xff[]",
            "content_type": "application/x-python-serialize",
            "content_encoding": "binary",
            "headers": {"id": "b1", "task": "shop.pack"},
            "properties": {"correlation_id": "b1", "priority": 3},
            "delivery_info": {"consumer_tag": "None1", "exchange": "x", "routing_key": "a.b"},
        }
        | changes
    )


def failed(**changes: Any) -> Publication:
    return make_failed(message(**changes), FAILED, "b1", "error")


def consumer(**tags: str) -> Any:
    return SimpleNamespace(task_consumer=SimpleNamespace(_active_tags=tags))


def test_the_queue_is_that_of_the_consumers_tag():
    assert find_queue(message(), consumer(other="None2", tasks="None1")) == "tasks"


@pytest.mark.parametrize(
    "lost",
    [None, object(), SimpleNamespace(task_consumer=None), consumer(other="None2")],
    ids=["no consumer", "of another kind", "stopped", "another tag"],
)
def test_without_the_tag_the_routing_key_is_taken(lost):
    assert find_queue(message(), lost) == "a.b"


def test_without_the_tag_the_queue_is_the_one_that_is_bound_so():
    bound = SimpleNamespace(name="tasks", exchange=SimpleNamespace(name="x"), routing_key="a.b")
    other = SimpleNamespace(name="others", exchange=SimpleNamespace(name="y"), routing_key="a.b")
    worker = SimpleNamespace(task_consumer=SimpleNamespace(_active_tags={}, queues=[other, bound]))

    assert find_queue(message(), worker) == "tasks"


def test_what_redis_knows_of_a_delivery_is_no_part_of_the_failure():
    came = message(
        headers={"id": "b1", "redelivered": True},
        properties={"priority": 3, "delivery_info": {"routing_key": "a.b"}, "delivery_tag": "t"},
    )

    made = make_failed(came, FAILED, "b1", "error")

    assert made.properties == {"message_id": "b1", "priority": 3}
    assert "redelivered" not in made.headers


@pytest.mark.parametrize(
    ("worker", "node"),
    [(SimpleNamespace(hostname="packers@box-1"), "packers@box-1"), (object(), None)],
    ids=["named", "nameless"],
)
def test_the_node_is_the_name_of_the_worker_among_those_of_its_app(worker, node):
    assert name_node(worker) == node


def test_an_exception_is_told_with_its_trace():
    problem = make_problem(ValueError("7"), "line 1")

    assert (problem.type, problem.message, problem.stack_trace) == ("ValueError", "7", "line 1")


@pytest.mark.parametrize(
    "late", [TimeLimitExceeded(1), SoftTimeLimitExceeded(), TimeoutError()], ids=repr
)
def test_what_took_too_long_has_its_own_reason(late):
    assert make_problem(late, "").reason is Reason.TIMEOUT


def test_a_rejection_is_told_by_its_reason():
    assert make_problem(Reject(ValueError("7")), "").type == "ValueError"


def test_a_rejection_for_no_exception_is_told_as_one():
    problem = make_problem(Reject("not today"), "")

    assert (problem.type, problem.message) == ("Reject", "not today")


def test_an_exception_that_was_not_pickled_has_its_own_name():
    told = type("UnpickleableExceptionWrapper", (Exception,), {"exc_cls_name": "Unpaid"})

    assert make_problem(told(), "").type == "Unpaid"


def test_an_exception_whose_text_fails_is_told_all_the_same():
    told = type("Rude", (Exception,), {"__str__": lambda _self: 1 // 0})

    assert "ZeroDivisionError" in make_problem(told(), "").message


def test_what_a_pool_wraps_is_the_exception():
    error = ValueError()
    wrapped = type("ExceptionWithTraceback", (Exception,), {"exc": error})

    assert unwrap(wrapped()) is error


@pytest.mark.parametrize(("retries", "runs"), [(0, 1), (2, 3), (None, 1), ("2", 1)])
def test_it_ran_once_and_once_for_each_retry(retries, runs):
    assert count_runs({"retries": retries}) == runs


def test_the_body_stays_as_it_came():
    made = failed()

    assert (made.body, made.content_type) == (b"\xff[]", "application/x-python-serialize")


def test_a_compressed_body_is_compressed_again():
    assert failed(headers={"compression": "application/x-gzip"}).compression == "application/x-gzip"


def test_the_id_of_the_task_is_the_message_id():
    assert failed().properties == {"message_id": "b1", "correlation_id": "b1", "priority": 3}


def test_what_would_let_the_failure_or_its_retry_vanish_is_left_out():
    made = failed(
        headers={"id": "b1", "expires": "2026-05-04T12:00:00+00:00", "CC": ["other"]},
        properties={"expiration": "1000", "user_id": "somebody"},
    )

    assert made.headers["expires"] is None
    assert "CC" not in made.headers
    assert made.properties == {"message_id": "b1"}


def test_the_short_form_has_no_trace():
    made = failed()

    assert made.headers["Retrier.Exception.StackTrace"] == "line 1"
    assert "Retrier.Exception.StackTrace" not in made.shorter
