"""Patched retries over the bench: asked for, and what then lies on the queue."""

from typing import Any
from uuid import uuid4

from retrier.domain import headers
from retrier.domain.patches import write_patch
from retrier.domain.retry_operation import RetryTerms
from tests.support.bench import QUEUE, Bench
from tests.support.editing import lying
from tests.support.factories import failure
from tests.support.shop import failure_headers

BODY = b'{"order": 7, "total": 1.10}'
REPLACED = b'{"order":8,"total":1.10}'
PATCH = {
    "headers": {"set": {"X-Region": "eu"}, "remove": ["X-Old"]},
    "body": [{"op": "replace", "path": "/order", "value": 8}],
}


def with_patch(given: Any = PATCH, **terms: Any) -> RetryTerms:
    """Return the terms of a patched retry."""
    return RetryTerms(patch=write_patch(given), **terms)


def bodies(bench: Bench, queue: str = QUEUE) -> dict[str, bytes]:
    """Return the bodies that lie in a queue, by the unique id of their message."""
    return {
        str(properties.text(headers.UNIQUE_MESSAGE_ID)): body
        for properties, body in lying(bench, queue)
    }


def fail_as_sent(bench: Bench, unique_id: str, **changes: Any) -> None:
    """Let the consumer fail with what was sent to it, or with something of it changed."""
    message = bench.message(unique_id)
    given = {
        "queue": QUEUE,
        "message_id": message["message_id"],
        "stamped_id": unique_id,
        "retry_id": message["last_retry_id"],
        "body": REPLACED,
        "headers": {"X-Region": "eu", "x-tenant": "a"},
    }
    bench.receive(failure(**given | changes))


def fail_old(bench: Bench, count: int = 1, **changes: Any) -> list[str]:
    """Store failed messages that the patch can be applied to."""
    given: dict[str, Any] = {"body": BODY, "headers": {"X-Old": "1", "x-tenant": "a"}}
    return bench.fail(count, **(given | changes))


def put_plain(shop: Any, count: int) -> None:
    """Put failed messages on the error queue whose body is no JSON: a JSON Patch fits none of them."""
    for number in range(count):
        named = {"NServiceBus.MessageId": str(uuid4())}
        shop.put({**named, **failure_headers(shop.orders)}, b"plain %d" % number)
