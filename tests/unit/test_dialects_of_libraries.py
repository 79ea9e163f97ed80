"""What is read of failed messages as libraries leave them, and what goes back."""

import json
from base64 import b64encode
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from retrier.domain import dialects
from retrier.domain.dialects import BY_CONSUMERS, DIALECTS, by_name, recognise, strips, varies
from retrier.domain.dialects.accounts import read_failure
from retrier.domain.dialects.dialect import LOST_NEXT, FoundOn
from retrier.domain.dialects.masstransit import queue_in
from retrier.domain.dialects.rabbitmq import is_wait_queue
from retrier.domain.dialects.spring import thrown_type
from retrier.domain.failed_message import FailureDetails
from tests.support.dialect_headers import NSB, OURS, properties
from tests.support.library_samples import (
    JAVA_TRACE,
    SAMPLES,
    STAMPS,
    Sample,
    easynetq,
    rejected,
)
from tests.support.php_bodies import sent_text

BUILT_BEFORE = {"nservicebus", "retrier", "rabbitmq", "celery", "dramatiq"}
WRONG: list[Any] = [b"\xff\x00", 5, 1.5, True, None, "", [], {}, ["x"], {"a": {"b": "c"}}, "x" * 9]


def read(sample: Sample, **changes: Any) -> FailureDetails:
    """Read a sample, with some of its headers changed."""
    held = properties(sample.headers | changes, **sample.fields)
    dialect = by_name(sample.dialect)
    assert dialect
    details = read_failure(
        dialect, held, otherwise=None, body=sample.body, found_on=FoundOn(sample.found_on)
    )
    assert isinstance(details, FailureDetails)
    return details


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda each: each.name)
class TestSamples:
    def test_its_dialect_is_recognised(self, sample: Sample) -> None:
        found = recognise(sample.properties, None, sample.found_on, sample.body)

        assert found is by_name(sample.dialect)

    def test_all_that_it_says_is_read(self, sample: Sample) -> None:
        assert read(sample) == sample.details

    def test_its_id_is_that_of_the_message(self, sample: Sample) -> None:
        known = by_name(sample.dialect)
        assert known

        assert (sample.details.id_in_body or known.message_id(sample.properties)) == (
            sample.message_id
        )

    def test_a_queue_that_the_settings_name_fills_in(self, sample: Sample) -> None:
        known = by_name(sample.dialect)
        assert known

        found = known.read(sample.properties, otherwise="orders", body=sample.body)

        assert isinstance(found, FailureDetails)
        assert found.queue != ""

    @pytest.mark.parametrize("wrong", WRONG, ids=repr)
    def test_a_header_of_another_type_harms_nothing_else(self, sample: Sample, wrong: Any) -> None:
        for name in sample.headers:
            if name != "x-death":
                assert read(sample, **{name: wrong}).queue is not None

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"null",
            b"[1]",
            b"\xff\xfe",
            b"[" * 90_000,
            b'{"a":' * 50_000,
            b'{"pattern":',
            b"O:",
        ],
        ids=lambda each: repr(each[:9]),
    )
    def test_a_body_of_any_kind_is_taken(self, sample: Sample, body: bytes) -> None:
        known = by_name(sample.dialect)
        assert known

        known.read(sample.properties, body=body, found_on=FoundOn(sample.found_on))
        recognise(sample.properties, None, sample.found_on, body)


def test_each_format_has_two_samples() -> None:
    held = Counter(each.dialect for each in SAMPLES)

    assert {
        each.name: held[each.name] for each in DIALECTS if each.name not in BUILT_BEFORE
    } == dict.fromkeys(held, 2)


@pytest.mark.parametrize(
    "header",
    [
        "MT-Fault-Message",
        "MT-Reason",
        "MT-Host-MachineName",
        "MT-Redelivery-Count",
        "x-exception-message",
        "x-exception-stacktrace",
        "x-original-exchange",
        "x-original-routingKey",
        STAMPS + "SentToFailureTransportStamp",
        STAMPS + "ErrorDetailsStamp",
        STAMPS + "RedeliveryStamp",
        STAMPS + "DelayStamp",
        "rbs2-error-details",
        "rbs2-source-queue",
        "rbs2-delivery-count",
        "reason_poisoned",
        "subscriber_poisoned",
        "NServiceBus.FailedQ",
        "Retrier.FailedQueue",
    ],
)
@pytest.mark.parametrize("dialect", ["rabbitmq", "nservicebus", "masstransit", "esperanto"])
def test_what_a_library_wrote_never_goes_back_whoever_read_it(dialect: str, header: str) -> None:
    assert strips(dialect, header)
    assert varies(header)


@pytest.mark.parametrize(
    ("dialect", "header"),
    [("spring", "retry-count"), ("laravel", "laravel"), ("taskiq", "_retries")],
)
def test_a_name_that_others_use_goes_only_with_its_own_format(dialect: str, header: str) -> None:
    assert strips(dialect, header)
    assert not strips("nservicebus", header)


@pytest.mark.parametrize(
    "header",
    [
        "rbs2-msg-id",
        "rbs2-return-address",
        "__TypeId__",
        "type",
        "task_id",
        STAMPS + "BusNameStamp",
        "_watermill_message_uuid",
    ],
)
def test_what_the_sender_wrote_goes_back(header: str) -> None:
    assert not any(strips(each.name, header) for each in DIALECTS)


def test_what_a_library_names_comes_before_what_the_broker_wrote() -> None:
    rebus = next(each for each in SAMPLES if each.dialect == "rebus")
    later = rejected("billing", time=1777896000)

    assert read(rebus, **{"x-death": later}).queue == "packing"


def test_a_rejection_on_the_same_queue_gives_the_time_that_a_library_does_not_say() -> None:
    poisoned = next(each for each in SAMPLES if each.dialect == "watermill")

    told = read(poisoned, **{"x-death": rejected("orders", time=1777896000, count=4)})

    assert told.time_of_failure is not None
    assert told.attempts_reported == 4


@pytest.mark.parametrize("headers", [NSB, OURS], ids=["NServiceBus", "Retrier"])
def test_a_consumers_own_headers_come_before_those_of_a_library(headers: dict[str, object]) -> None:
    fault = next(each for each in SAMPLES if each.dialect == "masstransit")

    assert recognise(properties(fault.headers, headers)) in BY_CONSUMERS


@pytest.mark.parametrize(
    ("address", "queue"),
    [
        ("rabbitmq://host/orders", "orders"),
        ("rabbitmq://host:5672/shop/orders?durable=true", "orders"),
        ("rabbitmq://host/shop%2Feu/a%2Fb%20c", "a/b c"),
        ("rabbitmq://host/orders/", "orders"),
        ("rabbitmq://host/", None),
        ("", None),
        (None, None),
        ("no address", None),
        ("orders", None),
        ("/shop/orders", None),
        ("queue:orders", "orders"),
        ("rabbitmq://host/a%252Fb", "a%2Fb"),
        ("rabbitmq://host/%2F/orders%3Fx?temporary=true", "orders?x"),
        ("rabbitmq://host", None),
        ("rabbitmq://[broken/orders", None),
    ],
)
def test_the_queue_of_an_address_is_its_last_part(address: str | None, queue: str | None) -> None:
    assert queue_in(address) == queue


@pytest.mark.parametrize(
    ("trace", "message", "found"),
    [
        (JAVA_TRACE, "no stock left", "java.lang.IllegalStateException"),
        (
            JAVA_TRACE,
            "something else",
            "org.springframework.amqp.ListenerExecutionFailedException",
        ),
        (JAVA_TRACE[:90], None, "org.springframework.amqp.ListenerExecutionFailedException"),
        ("shop.Bare\n\tat a.B.c(B.java:1)", None, "shop.Bare"),
        ("", "no stock left", None),
    ],
)
def test_the_type_is_the_class_whose_text_is_told(trace: str, message: str, found: str) -> None:
    assert thrown_type(trace, message) == found


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        ("delay_app_orders_500_retry", True),
        ("delay_app_orders_500_delay", True),
        ("orders.delay.5000", True),
        ("tasks.delay", True),
        ("nsb.v2.delay-level-07", True),
        ("celery_delayed_12", True),
        ("orders", False),
        ("orders.wait", False),
        ("delay_orders", False),
    ],
)
def test_wait_queues_are_known_by_their_names(queue, expected):
    assert is_wait_queue(queue) is expected


class TestEnvelope:
    def test_the_message_inside_has_its_own_properties(self) -> None:
        inside = dialects.unwrap("easynetq", properties(), easynetq())

        assert inside is not None
        assert inside.body == b'{"order":7}'
        assert inside.fields == {
            "correlation_id": "c-7",
            "type": "Shop.OrderPlaced, Shop",
            "delivery_mode": 2,
        }
        assert inside.headers["tenant"] == "north"

    def test_an_envelope_inside_an_envelope_is_what_came(self) -> None:
        inner = easynetq().decode()

        inside = dialects.unwrap("easynetq", properties(), easynetq(message=inner))

        assert inside is not None
        assert inside.body == inner.encode()

    @pytest.mark.parametrize(
        "body", [b"no json", b"{}", b"[]", easynetq()[:-9], easynetq(Message=None)]
    )
    def test_what_is_no_envelope_is_a_message_of_its_own(self, body: bytes) -> None:
        held = properties(type="EasyNetQ.SystemMessages.Error, EasyNetQ")

        assert recognise(held, body=body) is None

    @pytest.mark.parametrize("wrong", [5, "text", [], {"Headers": 7}, {"MessageId": ["x"]}])
    def test_properties_of_another_kind_are_left_out(self, wrong: object) -> None:
        inside = dialects.unwrap("easynetq", properties(), easynetq(BasicProperties=wrong))

        assert inside is None or dict(inside.fields) == {}

    def test_what_no_property_holds_is_the_text_that_stands_there(self) -> None:
        header = (
            '{"BasicProperties": {"Headers": {"a": 1.10, "b": [1.0,  2e400], "c": true, "d": "x"}}'
        )
        whole = json.loads(easynetq())
        del whole["BasicProperties"]
        body = f"{header}, {json.dumps(whole)[1:]}".encode()

        inside = dialects.unwrap("easynetq", properties(), body)

        assert inside is not None
        assert inside.headers == {"a": "1.10", "b": "[1.0,  2e400]", "c": True, "d": "x"}

    def test_a_body_with_half_of_a_character_is_not_taken_out_as_another_one(self) -> None:
        held = properties(type="EasyNetQ.SystemMessages.Error, EasyNetQ")
        body = easynetq(message='{"text":"\ud800"}')

        known = recognise(held, body=body)

        assert known is by_name("easynetq")
        assert known.unwrap(held, body) is None
        assert "half of a character" in str(known.read(held, body=body))

    def test_halves_of_characters_are_replaced(self) -> None:
        body = json.dumps(
            json.loads(easynetq())
            | {"BasicProperties": {"Type": "\ud800", "Headers": {"\udc00": 1}}}
        ).encode()

        inside = dialects.unwrap("easynetq", properties(), body)

        assert inside is not None
        assert inside.fields["type"] == "?"
        assert inside.headers == {"?": 1}


def test_a_body_of_php_is_never_made_into_anything() -> None:
    cut = sent_text(b'O:36:"Symfony\\Component\\Messenger\\Envelope":2:{s:9999999:"cut')
    known = by_name("symfony")
    assert known

    assert recognise(properties(), body=cut) is known
    assert known.read(properties(), body=cut) == FailureDetails(queue="", destination="")


@pytest.mark.parametrize("value", [b"\xff", ["l"], {"a": 1}], ids=repr)
def test_a_queue_is_never_what_python_writes_of_a_value(value: Any) -> None:
    sample = next(each for each in SAMPLES if each.dialect == "watermill")

    assert read(sample, topic_poisoned=value).destination == ""


def test_bytes_that_are_text_are_text() -> None:
    sample = next(each for each in SAMPLES if each.dialect == "watermill")

    assert read(sample, topic_poisoned=b"orders").destination == "orders"


def test_a_body_of_php_is_read_in_base64_as_well() -> None:
    sample = next(each for each in SAMPLES if each.name == "symfony php")
    packed = replace(sample, body=b64encode(sample.body))

    # Messenger would not pack what is UTF-8: it is read, and not cut.
    assert read(packed) == replace(read(sample), failure_reason=LOST_NEXT)
    assert recognise(properties({}), body=packed.body) is by_name("symfony")


def test_three_dots_are_no_class_of_java() -> None:
    assert thrown_type("...", None) is None
