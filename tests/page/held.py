"""What waits: a stream that holds messages, and a breaker that a person has opened."""

from collections.abc import Callable, Mapping
from typing import Any

import httpx
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from retrier.domain.headers import STREAM
from tests.support.shop import failure_headers
from tests.support.waiting import wait_until

Put = Callable[[Mapping[str, Any], bytes], None]
"""Puts a message with these headers on an error queue."""

QUEUE, CUSTOMER = "bills", "customer 7"
DEADLINE = 30.0
_STRICT = "UPDATE failed_messages SET stream_rule = 'strict' WHERE stream_id IS NOT NULL"
"""As a policy would say at the last failure."""


def fail_in_stream(
    http: httpx.Client, put: Put, database_url: str, count: int = 3, stream: str = CUSTOMER
) -> None:
    """Let messages of one strict stream fail, and wait until they are stored."""
    for number in range(count):
        headers = {
            **failure_headers(QUEUE),
            "NServiceBus.MessageId": f"bill-{number} of {stream}",
            "NServiceBus.EnclosedMessageTypes": "Shop.SendBill, Shop",
            STREAM: stream,
        }
        put(headers, b'{"bill": %d}' % number)
    stored = {"stream": stream}
    listed = "/api/errors"
    wait_until(lambda: len(http.get(listed, params=stored).json()) == count, DEADLINE)
    engine = create_engine(database_url, poolclass=NullPool)
    with engine.begin() as conn:
        conn.execute(text(_STRICT))


def open_breaker(http: httpx.Client) -> None:
    """Open the breaker of their queue by hand."""
    body = {"for": "2h", "why": "the printer is being repaired"}
    who = {"X-Retrier-User": "ada"}
    http.post(f"/api/breakers/{QUEUE}/open", json=body, headers=who).raise_for_status()
    http.post("/api/breakers/parcels/close", json={}, headers=who).raise_for_status()
