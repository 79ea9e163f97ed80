"""The headers that a failed task gets and keeps, and what confirms a retry."""

import socket
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from retrier.integrations.failures import (
    FailedTask,
    add_steps,
    describe_failure,
    keep_headers,
    make_confirmation,
)
from retrier.worker.outcomes import Problem, Reason

AT = datetime(2026, 5, 4, 12, tzinfo=UTC)
PROBLEM = Problem(reason=Reason.EXCEPTION, type="Unpaid", message="7", stack_trace="x" * 100_000)
FAILED = FailedTask(
    queue="tasks",
    name="shop.pack",
    worker="celery",
    process=4711,
    node="packers@box-1",
    attempts=3,
    at=AT,
    problem=PROBLEM,
)
RETRY = {
    "ServiceControl.Retry.UniqueMessageId": "8a7b",
    "ServiceControl.Retry.AcknowledgementQueue": "error",
}


def test_a_failure_says_where_what_and_why():
    told = describe_failure(FAILED, in_short=True)

    assert told == {
        "Retrier.FailedQueue": "tasks",
        "Retrier.TimeOfFailure": "2026-05-04T12:00:00+00:00",
        "Retrier.Attempts": "3",
        "Retrier.Endpoint": "celery",
        "Retrier.Host": socket.gethostname(),
        "Retrier.Process": "4711",
        "Retrier.Node": "packers@box-1",
        "Retrier.MessageType": "shop.pack",
        "Retrier.Exception.Type": "Unpaid",
        "Retrier.Exception.Message": "7",
    }


@pytest.mark.parametrize("reason", [Reason.INVALID, Reason.POISON, Reason.TIMEOUT])
def test_a_reason_that_the_type_does_not_say_is_written(reason):
    told = describe_failure(replace(FAILED, problem=replace(PROBLEM, reason=reason)))

    assert told["Retrier.Reason"] == reason


def test_a_long_trace_fits_into_a_frame():
    assert len(describe_failure(FAILED)["Retrier.Exception.StackTrace"]) <= 33_000


def test_the_ids_of_a_retry_are_kept():
    assert keep_headers(RETRY | {"Retrier.RetryId": "r"}) == RETRY | {"Retrier.RetryId": "r"}


def test_steps_that_were_done_are_joined_with_those_it_came_with():
    problem = replace(PROBLEM, steps=("4",))

    assert add_steps({"Retrier.CompletedSteps": 3}, problem) == {"Retrier.CompletedSteps": "7"}
    assert add_steps({"Retrier.CompletedSteps": 3}, PROBLEM) == {}


def test_what_the_task_needs_again_is_kept():
    assert keep_headers({"Retrier.CompletedSteps": "3", "id": "b1"}) == {
        "Retrier.CompletedSteps": "3",
        "id": "b1",
    }


@pytest.mark.parametrize(
    "name",
    [
        "Retrier.Exception.Message",
        "Retrier.FailedQueue",
        "CC",
        "x-delivery-count",
        "x-caf-worker-retry",
        "x-caf-worker-timeouts",
    ],
)
def test_what_an_earlier_failure_or_the_broker_wrote_is_left_out(name):
    assert keep_headers({name: "old"}) == {}


def test_a_retry_is_confirmed_where_it_asks_for_it():
    confirmation = make_confirmation(RETRY, AT)

    assert confirmation is not None
    assert confirmation.queue == "error"
    assert confirmation.headers == {
        "ServiceControl.Retry.Successful": "2026-05-04T12:00:00+00:00",
        "ServiceControl.Retry.UniqueMessageId": "8a7b",
    }


@pytest.mark.parametrize("missing", RETRY)
@pytest.mark.parametrize("value", [None, "", 5, ["x"]], ids=repr)
def test_nobody_waits_for_a_confirmation_of_what_is_no_retry(missing, value):
    assert make_confirmation(RETRY | {missing: value}, AT) is None
