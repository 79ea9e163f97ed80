"""Raw AMQP properties as a client library or a broker would write them."""

from collections.abc import Mapping
from datetime import UTC, datetime

import amqp

from retrier.domain.wire import Delivery

RECEIVED_AT = datetime(2024, 5, 1, 12, 0, tzinfo=UTC)


def raw_properties(headers: Mapping[str, object] | None = None, **fields: object) -> bytes:
    """Encode properties and headers, each with the type Python gives it."""
    if headers is not None:
        fields["application_headers"] = dict(headers)
    raw = amqp.Message(b"", **fields)._serialize_properties()  # noqa: SLF001 - its only encoder
    assert isinstance(raw, bytes)
    return raw


def delivery(
    headers: Mapping[str, object] | None = None,
    *,
    body: bytes = b"body",
    queue: str = "error",
    redelivered: bool = False,
    **fields: object,
) -> Delivery:
    """Make a delivery with these headers and AMQP properties."""
    raw = raw_properties(headers, **fields)
    return Delivery(tag=None, queue=queue, raw=raw, body=body, redelivered=redelivered)


def nservicebus_headers(**changes: object) -> dict[str, object]:
    """Return the headers of a message that an NServiceBus endpoint gave up."""
    return {
        "NServiceBus.MessageId": "5f2a",
        "NServiceBus.ProcessingEndpoint": "Sales",
        "NServiceBus.FailedQ": "sales",
        "NServiceBus.TimeOfFailure": "2024-05-01 11:58:03:123456 Z",
        "NServiceBus.TimeSent": "2024-05-01 11:57:00:000001 Z",
        "NServiceBus.EnclosedMessageTypes": "Shop.PlaceOrder, Shop, Version=1.0.0.0;Shop.IEvent",
        "NServiceBus.ExceptionInfo.ExceptionType": "System.TimeoutException",
        "NServiceBus.ExceptionInfo.Message": "no answer",
        "NServiceBus.ExceptionInfo.StackTrace": (
            "System.TimeoutException: no answer\n   at Shop.Store.Save(Order o) in /s/Store.cs:line 7"
        ),
    } | changes


def retrier_headers(**changes: object) -> dict[str, object]:
    """Return the headers that a client writes for Retrier."""
    return {
        "Retrier.FailedQueue": "orders",
        "Retrier.TimeOfFailure": "2024-05-01T11:58:03.123456+00:00",
        "Retrier.Exception.Type": "ValueError",
        "Retrier.Exception.Message": "no such order",
        "Retrier.Exception.StackTrace": (
            "Traceback (most recent call last):\n"
            '  File "/app/main.py", line 3, in run\n'
            '  File "/app/orders.py", line 9, in load\n'
            "ValueError: no such order\n"
        ),
        "Retrier.MessageType": "PlaceOrder",
        "Retrier.Endpoint": "shop",
        "Retrier.Attempts": "3",
        "Retrier.Stream": "order-7",
        "Retrier.CompletedSteps": '["reserve"]',
        "Retrier.Reason": "validation",
    } | changes


def rabbitmq_headers(**changes: object) -> dict[str, object]:
    """Return the headers that RabbitMQ writes when it dead-letters; changes are of x-death[0]."""
    death = {
        "queue": "orders",
        "reason": "rejected",
        "time": datetime(2024, 5, 1, 11, 58, 3),  # noqa: DTZ001 - the encoder takes it as UTC
        "count": 3,
        "exchange": "",
        "routing-keys": ["orders"],
    } | changes
    return {
        "x-death": [death],
        "x-first-death-queue": "orders",
        "x-first-death-reason": "rejected",
        "x-first-death-exchange": "",
    }
