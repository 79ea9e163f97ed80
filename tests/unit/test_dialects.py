"""What each dialect reads, requires and strips."""

from datetime import UTC, datetime
from typing import Any

import pytest

from retrier.domain.dialects import (
    DIALECTS,
    RETRIER,
    by_name,
    recognise,
    strips,
    written_by_consumer,
)
from retrier.domain.dialects.dialect import Unintelligible, count
from retrier.domain.dialects.nservicebus import NServiceBusDialect
from retrier.domain.dialects.rabbitmq import RabbitMqDialect
from retrier.domain.failed_message import FailureDetails
from retrier.domain.wire import Properties

FAILED_AT = datetime(2024, 5, 1, 11, 58, 3, 123456, tzinfo=UTC)

NSERVICEBUS = NServiceBusDialect()
RABBITMQ = RabbitMqDialect()


def properties(*parts: dict[str, object], **fields: str | int) -> Properties:
    headers: dict[str, object] = {}
    for part in parts:
        headers |= part
    return Properties(headers=headers, fields=fields)


def death(**changes: object) -> dict[str, object]:
    return {"x-death": [{"queue": "orders", "reason": "rejected", "count": 3} | changes]}


def read(dialect: Any, *parts: dict[str, object], **fields: str | int) -> FailureDetails:
    details = dialect.read(properties(*parts, **fields))
    assert isinstance(details, FailureDetails)
    return details


NSB: dict[str, object] = {"NServiceBus.MessageId": "5f2a", "NServiceBus.FailedQ": "sales"}
OURS: dict[str, object] = {"Retrier.FailedQueue": "orders"}


class TestRecognising:
    @pytest.mark.parametrize(
        ("headers", "name"),
        [
            (NSB, "nservicebus"),
            (OURS, "retrier"),
            (death(), "rabbitmq"),
            (NSB | OURS | death(), "nservicebus"),
            (OURS | death(), "retrier"),
        ],
        ids=["FailedQ", "FailedQueue", "x-death", "all three", "retrier before rabbitmq"],
    )
    def test_the_first_dialect_that_knows_the_headers_reads_them(self, headers, name):
        dialect = recognise(properties(headers))

        assert dialect is not None
        assert dialect.name == name

    def test_a_message_without_failure_headers_is_in_no_dialect(self):
        assert recognise(properties({"Shop.Tenant": "north"})) is None

    def test_header_names_are_case_sensitive(self):
        assert recognise(properties({"nservicebus.failedq": "sales"})) is None

    def test_the_operator_can_name_the_dialect(self):
        assert recognise(properties(NSB), forced="rabbitmq") is by_name("rabbitmq")

    def test_a_dialect_nobody_knows_is_none(self):
        assert recognise(properties(NSB), forced="esperanto") is None

    @pytest.mark.parametrize(
        ("headers", "expected"), [(NSB, True), (OURS, True), (death(), False), ({}, False)]
    )
    def test_the_broker_is_no_consumer(self, headers, expected):
        assert written_by_consumer(properties(headers)) is expected

    def test_names_are_unique(self):
        assert len({dialect.name for dialect in DIALECTS}) == len(DIALECTS)


class TestNServiceBus:
    def test_everything_the_endpoint_wrote_is_read(self):
        assert read(
            NSERVICEBUS,
            {
                "NServiceBus.MessageId": "5f2a",
                "NServiceBus.FailedQ": "sales@HOST7",
                "NServiceBus.ProcessingEndpoint": "Sales",
                "NServiceBus.EnclosedMessageTypes": "Shop.PlaceOrder, Shop, Version=1.0;Shop.IEvent",
                "NServiceBus.TimeOfFailure": "2024-05-01 11:58:03:123456 Z",
                "NServiceBus.TimeSent": "2024-05-01 11:57:00:000000 Z",
                "NServiceBus.ExceptionInfo.ExceptionType": "System.TimeoutException",
                "NServiceBus.ExceptionInfo.Message": "no answer",
                "NServiceBus.ExceptionInfo.StackTrace": "   at Shop.Db.Open()",
                "Retrier.Stream": "order-7",
                "Retrier.CompletedSteps": "reserve",
            },
        ) == FailureDetails(
            queue="sales",
            destination="sales",
            endpoint="Sales",
            message_type="Shop.PlaceOrder",
            exception_type="System.TimeoutException",
            exception_message="no answer",
            stack_trace="   at Shop.Db.Open()",
            time_of_failure=FAILED_AT,
            time_sent=datetime(2024, 5, 1, 11, 57, tzinfo=UTC),
            stream_id="order-7",
            completed_steps="reserve",
        )

    def test_message_id_and_failed_queue_suffice(self):
        assert read(NSERVICEBUS, NSB) == FailureDetails(
            queue="sales", destination="sales", endpoint="sales"
        )

    @pytest.mark.parametrize("address", ["", "@HOST7"])
    def test_without_a_failed_queue_it_says_so(self, address):
        found = NSERVICEBUS.read(properties(NSB, {"NServiceBus.FailedQ": address}))

        assert found == Unintelligible("the header NServiceBus.FailedQ is missing or empty")

    def test_without_any_message_id_it_says_so(self):
        found = NSERVICEBUS.read(properties({"NServiceBus.FailedQ": "sales"}))

        assert isinstance(found, Unintelligible)
        assert "NServiceBus.MessageId" in found.reason

    def test_the_message_id_of_amqp_will_do(self):
        only_queue = properties({"NServiceBus.FailedQ": "sales"}, message_id="9")

        assert NSERVICEBUS.message_id(only_queue) == "9"
        assert isinstance(NSERVICEBUS.read(only_queue), FailureDetails)

    def test_its_own_message_id_comes_first(self):
        assert NSERVICEBUS.message_id(properties(NSB, message_id="9")) == "5f2a"

    def test_where_the_operator_says_where_it_failed_nothing_is_required(self):
        found = NSERVICEBUS.read(properties(), otherwise="sales")

        assert found == FailureDetails(queue="sales", destination="sales")

    @pytest.mark.parametrize(
        ("headers", "endpoint"),
        [
            ({"NServiceBus.ProcessingEndpoint": "Sales"}, "Sales"),
            ({"NServiceBus.FailedQ": "sales@HOST7"}, "sales"),
            ({"NServiceBus.FailedQ": "", "NServiceBus.ReplyToAddress": "web@HOST1"}, "web"),
            ({"NServiceBus.FailedQ": ""}, None),
        ],
        ids=["processing endpoint", "failed queue", "reply-to address", "nobody"],
    )
    def test_the_endpoint_is_found_as_servicecontrol_does(self, headers, endpoint):
        found = NSERVICEBUS.read(properties(NSB, headers), otherwise="anywhere")

        assert isinstance(found, FailureDetails)
        assert found.endpoint == endpoint

    @pytest.mark.parametrize(
        ("types", "first"),
        [
            ("Shop.PlaceOrder", "Shop.PlaceOrder"),
            ("Shop.PlaceOrder, Shop, Version=1.0.0.0, Culture=neutral", "Shop.PlaceOrder"),
            ("Shop.A, Shop;Shop.B, Shop", "Shop.A"),
            ("Shop.Box`1[[Shop.A, Shop]], Shop", "Shop.Box`1[[Shop.A, Shop]]"),
            ("Shop.Box`1[[Shop.A, Shop", "Shop.Box`1[[Shop.A, Shop"),
            ("]], Shop", "]]"),
            (" , Shop", None),
            (";", None),
            ("", None),
        ],
    )
    def test_the_message_type_is_the_first_without_its_assembly(self, types, first):
        details = read(NSERVICEBUS, NSB, {"NServiceBus.EnclosedMessageTypes": types})

        assert details.message_type == first

    def test_a_time_in_another_format_is_no_time(self):
        details = read(NSERVICEBUS, NSB, {"NServiceBus.TimeOfFailure": "yesterday"})

        assert details.time_of_failure is None

    @pytest.mark.parametrize(
        "header",
        [
            "NServiceBus.Retries",
            "NServiceBus.Retries.Timestamp",
            "NServiceBus.FailedQ",
            "NServiceBus.TimeOfFailure",
            "NServiceBus.ExceptionInfo.ExceptionType",
            "NServiceBus.ExceptionInfo.Data.Key",
            "ServiceControl.EditOf",
        ],
    )
    def test_what_the_failure_wrote_is_stripped(self, header):
        assert strips("nservicebus", header)

    @pytest.mark.parametrize(
        "header",
        [
            "nservicebus.failedq",
            "NServiceBus.FLRetries",
            "NServiceBus.MessageId",
            "NServiceBus.ProcessingEndpoint",
            "NServiceBus.ExceptionInfo",
            "ServiceControl.Retry.UniqueMessageId",
            "x-death",
            "Shop.Tenant",
        ],
    )
    def test_everything_else_stays(self, header):
        assert not strips("nservicebus", header)


class TestRetrier:
    def test_everything_the_client_wrote_is_read(self):
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
        )

    def test_the_failed_queue_suffices(self):
        assert read(RETRIER, OURS) == FailureDetails(queue="orders", destination="orders")

    def test_without_a_failed_queue_it_says_so(self):
        found = RETRIER.read(properties({"Retrier.Reason": "validation"}))

        assert found == Unintelligible("the header Retrier.FailedQueue is missing or empty")

    def test_the_message_type_may_be_the_type_of_amqp(self):
        assert read(RETRIER, OURS, type="PlaceOrder").message_type == "PlaceOrder"

    def test_the_message_id_is_that_of_amqp(self):
        assert RETRIER.message_id(properties(OURS, message_id="9")) == "9"

    @pytest.mark.parametrize("fields", [{}, {"message_id": ""}])
    def test_a_message_may_have_no_id(self, fields):
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
            "Retrier.CompletedSteps",
        ],
    )
    def test_what_the_failure_wrote_is_stripped(self, header):
        assert strips("retrier", header)

    @pytest.mark.parametrize(
        "header",
        ["Retrier.MessageType", "Retrier.Endpoint", "Retrier.Stream", "Retrier.RetryId", "x-death"],
    )
    def test_facts_about_the_message_stay(self, header):
        assert not strips("retrier", header)


class TestRabbitMq:
    def test_everything_the_broker_wrote_is_read(self):
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
            exception_message="rejected from queue orders (3 times)",
            failure_reason="rejected",
            time_of_failure=FAILED_AT,
            time_sent=datetime(2024, 5, 1, 12, tzinfo=UTC),
            attempts_reported=3,
            completed_steps="pay",
            stream_id="s",
        )

    def test_the_latest_death_counts_not_the_first(self):
        deaths = [*death(queue="retry")["x-death"], *death()["x-death"]]

        details = read(RABBITMQ, {"x-death": deaths, "x-first-death-queue": "orders"})

        assert details.queue == "retry"

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"count": 1}, "rejected from queue orders (1 time)"),
            ({"count": 0}, "rejected from queue orders"),
            ({"count": None}, "rejected from queue orders"),
            ({"reason": "expired", "count": 2}, "expired from queue orders (2 times)"),
            ({"reason": None}, None),
        ],
    )
    def test_the_death_is_told_in_words(self, changes, words):
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
    def test_a_time_that_is_none_is_never_made_up(self, time, expected):
        assert read(RABBITMQ, death(time=time)).time_of_failure == expected

    @pytest.mark.parametrize(
        "deaths",
        ["orders", [], ["orders"], [{}], [{"queue": ""}], [{"queue": 7}], {"queue": "orders"}],
        ids=str,
    )
    def test_a_death_that_names_no_queue_is_unintelligible(self, deaths):
        found = RABBITMQ.read(properties({"x-death": deaths}))

        assert found == Unintelligible("the first entry of the header x-death names no queue")

    def test_the_operator_may_say_where_it_failed(self):
        found = RABBITMQ.read(properties({"x-death": []}), otherwise="orders")

        assert found == FailureDetails(queue="orders", destination="orders")

    def test_the_message_type_may_be_a_header(self):
        found = read(RABBITMQ, death(), {"Retrier.MessageType": "PlaceOrder"})

        assert found.message_type == "PlaceOrder"

    def test_the_message_id_is_that_of_amqp(self):
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
    def test_what_the_broker_wrote_is_stripped(self, header):
        assert strips("rabbitmq", header)

    @pytest.mark.parametrize("header", ["x-deaths", "X-Death", "x-delay", "Shop.Tenant"])
    def test_everything_else_stays(self, header):
        assert not strips("rabbitmq", header)


@pytest.mark.parametrize("dialect", ["nservicebus", "retrier", "rabbitmq", "esperanto"])
@pytest.mark.parametrize("header", ["x-delivery-count", "x-acquired-count"])
def test_the_brokers_counters_are_stripped_in_every_dialect(dialect, header):
    assert strips(dialect, header)


def test_a_dialect_nobody_knows_strips_nothing_else():
    assert not strips("esperanto", "x-death")


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (3, 3),
        ("3", 3),
        (0, 0),
        (2**31 - 1, 2**31 - 1),
        (2**31, None),
        ("9" * 5000, None),
        (-1, None),
        (True, None),
        (1.5, None),
        ("three", None),
        ("\u0663", None),
        ("", None),
        (None, None),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_count_is_a_number_a_column_can_hold(value, number):
    assert count(value) == number
