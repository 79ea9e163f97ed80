"""What Retrier's own dialect reads, requires and strips."""

from datetime import UTC, datetime

import pytest

from retrier.domain.dialects import RETRIER, strips
from retrier.domain.dialects.dialect import Unintelligible
from retrier.domain.failed_message import FailureDetails
from tests.support.dialect_headers import OURS, properties, read

FAILED_AT = datetime(2024, 5, 1, 11, 58, 3, 123456, tzinfo=UTC)


def test_everything_the_client_wrote_is_read():
    assert read(
        RETRIER,
        {
            "Retrier.FailedQueue": "orders",
            "Retrier.TimeOfFailure": "2024-05-01T13:58:03.123456+02:00",
            "Retrier.Exception.Type": "ValueError",
            "Retrier.Exception.Message": "no such order",
            "Retrier.Exception.StackTrace": "Traceback",
            "Retrier.MessageType": "PlaceOrder",
            "Retrier.Endpoint": "shop",
            "Retrier.Attempts": "3",
            "Retrier.Stream": "order-7",
            "Retrier.CompletedSteps": "reserve,pay",
            "Retrier.Reason": "validation",
            "Retrier.Host": "box-7",
            "Retrier.Process": "4711",
            "Retrier.Node": "w1@box-7",
        },
        timestamp=1714564800,
    ) == FailureDetails(
        queue="orders",
        destination="orders",
        endpoint="shop",
        message_type="PlaceOrder",
        exception_type="ValueError",
        exception_message="no such order",
        stack_trace="Traceback",
        failure_reason="validation",
        time_of_failure=FAILED_AT,
        time_sent=datetime(2024, 5, 1, 12, tzinfo=UTC),
        attempts_reported=3,
        completed_steps="reserve,pay",
        stream_id="order-7",
        host="box-7",
        process="4711",
        node="w1@box-7",
    )


def test_the_failed_queue_suffices():
    assert read(RETRIER, OURS) == FailureDetails(queue="orders", destination="orders")


def test_without_a_failed_queue_it_says_so():
    found = RETRIER.read(properties({"Retrier.Reason": "validation"}))

    assert found == Unintelligible("the header Retrier.FailedQueue is missing or empty")


def test_a_reason_that_is_a_number_is_read():
    assert read(RETRIER, {**OURS, "Retrier.Reason": 1}).failure_reason == "1"


def test_the_message_type_may_be_the_type_of_amqp():
    assert read(RETRIER, OURS, type="PlaceOrder").message_type == "PlaceOrder"


def test_the_message_id_is_that_of_amqp():
    assert RETRIER.message_id(properties(OURS, message_id="9")) == "9"


@pytest.mark.parametrize("fields", [{}, {"message_id": ""}])
def test_a_message_may_have_no_id(fields):
    assert RETRIER.message_id(properties(OURS, **fields)) is None


@pytest.mark.parametrize(
    "header",
    [
        "Retrier.FailedQueue",
        "Retrier.TimeOfFailure",
        "Retrier.Exception.Type",
        "Retrier.Exception.Message",
        "Retrier.Exception.StackTrace",
        "Retrier.Reason",
        "Retrier.Attempts",
        "Retrier.Host",
        "Retrier.Process",
        "Retrier.Node",
        "Retrier.CompletedSteps",
    ],
)
def test_what_the_failure_wrote_is_stripped(header):
    assert strips("retrier", header)


@pytest.mark.parametrize(
    "header",
    ["Retrier.MessageType", "Retrier.Endpoint", "Retrier.Stream", "Retrier.RetryId"],
)
def test_facts_about_the_message_stay(header):
    assert not strips("retrier", header)
