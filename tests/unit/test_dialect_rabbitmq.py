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


def deaths(*each: tuple[str | None, object]) -> dict[str, object]:
    """Return deaths as the broker lists them, the newest first: queue and reason of each."""
    return {"x-death": [{"queue": queue, "reason": reason} for queue, reason in each]}


@pytest.mark.parametrize(
    ("newest_first", "failed_on"),
    [
        ([("billing", "rejected"), ("orders", "rejected")], "billing"),
        ([("billing", "delivery_limit"), ("orders", "rejected")], "billing"),
        ([("billing", "maxlen"), ("orders", "delivery_limit")], "orders"),
        ([("orders.dlq", "maxlen"), ("orders", "rejected")], "orders"),
        ([("wait", "expired"), ("dlq", "maxlen"), ("orders", "rejected")], "orders"),
        ([("wait", "expired"), ("orders", "maxlen")], "orders"),
        ([("billing", "maxlen"), ("orders", "maxlen")], "billing"),
        ([("orders", "maxlen")], "orders"),
        ([("orders.wait", "expired"), ("orders", "rejected")], "orders"),
        ([("orders", "rejected"), ("orders.wait", "expired")], "orders"),
        ([("orders.wait", "expired"), ("orders", "delivery_limit")], "orders"),
        ([("orders.wait", "expired"), ("orders", "maxlen")], "orders"),
        ([("wait.60", "expired"), ("wait.10", "expired"), ("orders", "rejected")], "orders"),
        ([("wait.60", "expired"), ("wait.10", "expired")], "wait.60"),
    ],
    ids=str,
)
def test_a_verdict_counts_before_a_length_and_an_expiry_only_where_nothing_else_is(
    newest_first, failed_on
):
    details = read(RABBITMQ, deaths(*newest_first), {"x-first-death-queue": "other"})

    assert (details.queue, details.destination) == (failed_on, failed_on)


def test_time_count_and_reason_are_of_the_queue_that_is_shown():
    waited = {"queue": "orders.wait", "reason": "expired", "count": 4, "time": 1714570000}
    rejected = {"queue": "orders", "reason": "rejected", "count": 3, "time": FAILED_AT}

    details = read(RABBITMQ, {"x-death": [waited, rejected]})

    assert details == FailureDetails(
        queue="orders",
        destination="orders",
        exception_message="rejected by a consumer on orders, 3 times",
        failure_reason="rejected",
        time_of_failure=FAILED_AT,
        attempts_reported=3,
    )


@pytest.mark.parametrize("unknown", ["poisoned", "", "Rejected", None, 7, ["rejected"], {}])
def test_a_reason_that_is_unknown_comes_after_a_failure_and_before_an_expiry(unknown):
    said = [("orders.wait", "expired"), ("stock", unknown), ("orders", "rejected")]

    assert read(RABBITMQ, deaths(*said)).queue == "orders"
    assert read(RABBITMQ, deaths(*said[:2])).queue == "stock"


@pytest.mark.parametrize("queue", [None, "", 7, ["orders"], {}])
def test_a_death_without_a_queue_wins_over_none_that_has_one(queue):
    details = read(RABBITMQ, deaths((queue, "rejected"), ("orders.wait", "expired")))

    assert (details.queue, details.failure_reason) == ("orders.wait", "expired")


@pytest.mark.parametrize("foreign", ["orders", 7, None, ["rejected"], b"bytes"])
def test_what_is_no_table_among_the_deaths_is_passed_over(foreign):
    details = read(RABBITMQ, {"x-death": [foreign, *death()["x-death"], foreign]})

    assert details.queue == "orders"


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
    "value",
    [
        *("orders", 7, None, [], ["orders"], [None], [[]], [{}], {"queue": "orders"}),
        *([{"queue": ""}], [{"queue": 7}], [{"reason": "rejected"}, {"queue": None}]),
    ],
    ids=str,
)
def test_deaths_that_name_no_queue_are_unintelligible(value):
    found = RABBITMQ.read(properties({"x-death": value}))

    assert found == Unintelligible("no entry of the header x-death names a queue")


def test_the_operator_may_say_where_it_failed():
    found = RABBITMQ.read(properties({"x-death": []}), otherwise="orders")

    assert found == FailureDetails(queue="orders", destination="orders")


def test_the_reason_is_shown_also_where_only_the_operator_says_where_it_failed():
    found = RABBITMQ.read(properties(deaths((None, "rejected"))), otherwise="orders")

    assert found == FailureDetails(queue="orders", destination="orders", failure_reason="rejected")


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
