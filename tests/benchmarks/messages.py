"""Failed messages as an NServiceBus endpoint leaves them: many headers, a stack trace, a body."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from uuid import uuid4

from tests.support.raw_messages import raw_properties

ID = "00000000-0000-0000-0000-000000000000"
"""Stands in the templates for the message id, which has the same length."""
ENDPOINT = "Sales.OrderProcessing"
CAUSES = 20
"""So many different exceptions are among the messages."""
FRAMES = 14
POOL = Random(7).randbytes(1_000_000).hex().encode()  # noqa: S311 - the same in each run
"""Text that does not compress well: bodies are cut out of it."""


@dataclass(frozen=True, slots=True)
class Message:
    """Raw properties and body."""

    raw: bytes
    body: bytes


def ordinary_headers(message_id: str) -> dict[str, object]:
    """Return the headers of a message before it failed."""
    return {
        "NServiceBus.MessageId": message_id,
        "NServiceBus.MessageIntent": "Send",
        "NServiceBus.ConversationId": message_id,
        "NServiceBus.CorrelationId": message_id,
        "NServiceBus.RelatedTo": message_id,
        "NServiceBus.OriginatingMachine": "shop-web-7",
        "NServiceBus.OriginatingEndpoint": "Shop.Web",
        "NServiceBus.ReplyToAddress": "Shop.Web",
        "NServiceBus.ContentType": "application/json",
        "NServiceBus.EnclosedMessageTypes": (
            "Shop.Messages.PlaceOrder, Shop.Messages, Version=4.2.0.0, Culture=neutral"
        ),
        "NServiceBus.Version": "9.1.0",
        "NServiceBus.TimeSent": "2026-05-04 11:58:01:123456 Z",
        "NServiceBus.ProcessingMachine": "shop-worker-3",
        "NServiceBus.ProcessingEndpoint": ENDPOINT,
        "NServiceBus.DelayedRetries": "3",
        "Shop.Tenant": "north",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    }


def failure_headers(queue: str, cause: int, depth: int = FRAMES) -> dict[str, object]:
    """Return the headers that one of the causes adds to a message that failed on a queue."""
    exception = f"Shop.Stock.OutOfStockException{cause}"
    frames = "\n".join(
        f"   at Shop.Stock.Warehouse{frame}.Reserve(Order order, CancellationToken token) "
        f"in /src/Shop/Stock/Warehouse{frame}.cs:line {cause + 40 + frame}"
        for frame in range(depth)
    )
    return {
        "NServiceBus.FailedQ": queue,
        "NServiceBus.TimeOfFailure": "2026-05-04 12:00:00:123456 Z",
        "NServiceBus.ExceptionInfo.ExceptionType": exception,
        "NServiceBus.ExceptionInfo.Message": f"shelf {cause} is empty",
        "NServiceBus.ExceptionInfo.Source": "Shop.Stock",
        "NServiceBus.ExceptionInfo.StackTrace": f"{exception}: shelf {cause} is empty\n{frames}",
    }


def make_templates(queue: str | None, depth: int = FRAMES) -> Sequence[bytes]:
    """Return raw properties with `ID` in them, one for each cause; without a queue: not failed.

    `depth` is the number of frames in a stack trace.
    """
    causes = [failure_headers(queue, cause, depth) for cause in range(CAUSES)] if queue else [{}]
    return [
        raw_properties(
            {**ordinary_headers(ID), **cause},
            message_id=ID,
            correlation_id=ID,
            content_type="application/json",
            delivery_mode=2,
            type="Shop.Messages.PlaceOrder",
            reply_to="Shop.Web",
        )
        for cause in causes
    ]


def make_body(message_id: str, size: int) -> bytes:
    """Return a body of this size that no other message has."""
    head = b'{"order":"%s","text":"' % message_id.encode()
    left = max(0, size - len(head) - 2)
    start = int(message_id[:8], 16) % (len(POOL) - left)
    return head + POOL[start : start + left] + b'"}'


def make_messages(queue: str | None, count: int, size: int) -> Iterator[Message]:
    """Make messages that failed on a queue; without one: that did not fail."""
    templates = make_templates(queue)
    for number in range(count):
        message_id = str(uuid4())
        raw = templates[number % len(templates)].replace(ID.encode(), message_id.encode())
        yield Message(raw, make_body(message_id, size))
