"""What people see of a failure, derived from the bytes in which it is kept."""

import pytest

from retrier.domain.failure_texts import Shown, derive
from retrier.transport.embedded.properties import EnvelopePropertyCodec
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from tests.support.factories import failure, raw_properties
from tests.support.raw_messages import (
    nservicebus_headers,
    rabbitmq_headers,
    retrier_headers,
)
from tests.support.raw_messages import raw_properties as encoded

CODEC = AmqpPropertyCodec()


def shown(headers, dialect="retrier", otherwise=None, **fields):
    return derive(CODEC, encoded(headers, **fields), dialect=dialect, otherwise=otherwise)


@pytest.mark.parametrize(
    ("headers", "dialect", "expected"),
    [
        (
            nservicebus_headers(),
            "nservicebus",
            ("Sales", "no answer", "System.TimeoutException: no answer"),
        ),
        (
            retrier_headers(),
            "retrier",
            ("shop", "no such order", "Traceback (most recent call last):"),
        ),
        (rabbitmq_headers(), "rabbitmq", (None, "rejected by a consumer on orders, 3 times", None)),
    ],
    ids=["nservicebus", "retrier", "rabbitmq"],
)
def test_endpoint_and_exception_are_what_the_headers_say(headers, dialect, expected):
    found = shown(headers, dialect)

    first_line = found.stack_trace and found.stack_trace.splitlines()[0]
    assert (found.endpoint, found.exception_message, first_line) == expected


def test_headers_are_as_json_has_them():
    found = shown(rabbitmq_headers() | {"text": "a\0b"}, "rabbitmq")

    assert found.headers["text"] == "ab"
    assert found.headers["x-death"] == [
        {
            "queue": "orders",
            "reason": "rejected",
            "time": "2024-05-01T11:58:03+00:00",
            "count": 3,
            "exchange": "",
            "routing-keys": ["orders"],
        }
    ]


def test_the_content_type_is_the_propertys():
    assert shown({}, content_type="text/\0html").content_type == "text/html"


@pytest.mark.parametrize(
    ("header", "text", "limit"),
    [
        ("Retrier.Endpoint", "endpoint", 1024),
        ("Retrier.Exception.Message", "exception_message", 64 * 1024),
        ("Retrier.Exception.StackTrace", "stack_trace", 64 * 1024),
    ],
)
def test_text_is_cut_and_cleaned_as_ingestion_does(header, text, limit):
    found = shown(retrier_headers() | {header: "\0" + "x" * 100_000})

    assert getattr(found, text) == "x" * limit


def test_headers_that_do_not_say_where_it_failed_still_tell_the_rest():
    headers = {"Retrier.Exception.Message": "no such order", "Retrier.Endpoint": "shop"}

    found = shown(headers, otherwise="orders")

    assert (found.exception_message, found.endpoint) == ("no such order", "shop")


@pytest.mark.parametrize(
    ("dialect", "otherwise"), [("retrier", None), ("esperanto", "orders")], ids=["where", "how"]
)
def test_without_a_reading_the_headers_are_shown_alone(dialect, otherwise):
    found = shown({"Shop.Tenant": "north"}, dialect, otherwise, content_type="text/plain")

    assert found == Shown(
        headers={"Shop.Tenant": "north"},
        properties={"content_type": "text/plain"},
        content_type="text/plain",
    )


@pytest.mark.parametrize(
    ("codec", "raw"),
    [
        (CODEC, EnvelopePropertyCodec.empty),
        (CODEC, b""),
        (EnvelopePropertyCodec(), raw_properties({"Shop.Tenant": "north"})),
    ],
    ids=["an envelope", "no bytes", "AMQP"],
)
def test_nothing_is_shown_of_bytes_that_cannot_be_read(codec, raw):
    assert derive(codec, raw, dialect="retrier", otherwise="orders") == Shown()


def test_a_failure_that_tests_make_is_shown_as_its_details_say():
    made = failure(headers={"Number": 1}, content_type="text/plain")

    found = derive(CODEC, made.raw, dialect=made.dialect)

    assert found.headers["Number"] == 1
    assert found.content_type == "text/plain"
    assert (found.endpoint, found.exception_message, found.stack_trace) == (
        made.details.endpoint,
        made.details.exception_message,
        made.details.stack_trace,
    )
