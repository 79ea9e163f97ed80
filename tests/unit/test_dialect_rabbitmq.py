"""What the RabbitMQ dialect reads, requires and strips."""

from datetime import UTC, datetime

import pytest

from retrier.domain.dialects import strips
from retrier.domain.dialects.dialect import Unintelligible
from retrier.domain.dialects.rabbitmq import RabbitMqDialect
from retrier.domain.failed_message import FailureDetails
from tests.support.dialect_headers import death, properties, read

FAILED_AT = datetime(2024, 5, 1, 11, 58, 3, 123456, tzinfo=UTC)

RABBITMQ = RabbitMqDialect()


def test_everything_the_broker_wrote_is_read():
    assert read(
        RABBITMQ,
        death(time=FAILED_AT, exchange="", **{"routing-keys": ["orders"]}),
        {"Retrier.Endpoint": "shop", "Retrier.Stream": "s", "Retrier.CompletedSteps": "pay"},
        type="PlaceOrder",
        timestamp=1714564800,
    ) == FailureDetails(
        queue="orders",
        destination="orders",
        endpoint="shop",
        message_type="PlaceOrder",
        exception_message="rejected by a consumer on orders, 3 times",
        failure_reason="rejected",
        time_of_failure=FAILED_AT,
        time_sent=datetime(2024, 5, 1, 12, tzinfo=UTC),
        attempts_reported=3,
        completed_steps="pay",
        stream_id="s",
    )


def test_the_latest_death_counts_not_the_first():
    deaths = [*death(queue="retry")["x-death"], *death()["x-death"]]

    details = read(RABBITMQ, {"x-death": deaths, "x-first-death-queue": "orders"})

    assert details.queue == "retry"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"count": 1}, "rejected by a consumer on orders"),
        ({"count": 0}, "rejected by a consumer on orders"),
        ({"count": None}, "rejected by a consumer on orders"),
        ({"reason": "expired", "count": 2}, "message expired on orders, 2 times"),
        ({"reason": None}, None),
    ],
)
def test_the_death_is_told_in_words(changes, words):
    assert read(RABBITMQ, death(**changes)).exception_message == words


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (FAILED_AT, FAILED_AT),
        (1714564683123, FAILED_AT.replace(microsecond=123000)),
        ("yesterday", None),
        (None, None),
    ],
    ids=["a time", "milliseconds", "text", "absent"],
)
def test_a_time_that_is_none_is_never_made_up(time, expected):
    assert read(RABBITMQ, death(time=time)).time_of_failure == expected


@pytest.mark.parametrize(
    "deaths",
    ["orders", [], ["orders"], [{}], [{"queue": ""}], [{"queue": 7}], {"queue": "orders"}],
    ids=str,
)
def test_a_death_that_names_no_queue_is_unintelligible(deaths):
    found = RABBITMQ.read(properties({"x-death": deaths}))

    assert found == Unintelligible("the first entry of the header x-death names no queue")


def test_the_operator_may_say_where_it_failed():
    found = RABBITMQ.read(properties({"x-death": []}), otherwise="orders")

    assert found == FailureDetails(queue="orders", destination="orders")


def test_the_message_type_may_be_a_header():
    found = read(RABBITMQ, death(), {"Retrier.MessageType": "PlaceOrder"})

    assert found.message_type == "PlaceOrder"


def test_the_message_id_is_that_of_amqp():
    assert RABBITMQ.message_id(properties(death(), message_id="9")) == "9"


@pytest.mark.parametrize(
    "header",
    [
        "x-death",
        "x-first-death-queue",
        "x-first-death-reason",
        "x-first-death-exchange",
        "x-last-death-queue",
        "x-last-death-reason",
        "x-last-death-exchange",
        "x-delivery-count",
    ],
)
def test_what_the_broker_wrote_is_stripped(header):
    assert strips("rabbitmq", header)


@pytest.mark.parametrize("header", ["x-deaths", "X-Death", "x-delay", "Shop.Tenant"])
def test_everything_else_stays(header):
    assert not strips("rabbitmq", header)
