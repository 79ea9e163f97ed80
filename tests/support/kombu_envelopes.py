"""Messages as Kombu programs leave them in the embedded broker, the awkward ones above all."""

import os
import zlib
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

from kombu.utils.json import dumps

TYPED_HEADERS = {
    "text": "grüße \ud800",
    "none": None,
    "flag": True,
    "large": 2**70,
    "real": 0.1,
    "not a number": float("nan"),
    "price": Decimal("12.30"),
    "bytes": b"text",
    "binary": b"\xff\x00",
    "at": datetime(2024, 5, 1, 11, 58, 3, 123456, tzinfo=UTC),
    "day": date(2024, 5, 1),
    "hour": time(11, 58),
    "id": UUID(int=7),
    "nested": {"list": [1, None, {"deep": Decimal("1E+3")}], "empty": {}},
}
"""Every type that Kombu's JSON knows."""


def envelope(**parts: object) -> bytes:
    """Write an envelope as Kombu does; `content_type` stands for `content-type`."""
    raw: str = dumps({name.replace("_", "-"): value for name, value in parts.items()})
    return raw.encode()


SAMPLES: Mapping[str, tuple[bytes, bytes]] = {
    "nothing at all": (b"{}", b""),
    "what Kombu writes": (
        envelope(
            content_encoding="utf-8",
            content_type="application/json",
            headers={"Retrier.FailedQueue": "orders"},
            properties={"delivery_mode": 2, "priority": 0},
        ),
        b'{"order": 1}',
    ),
    "nulls": (
        envelope(content_type=None, content_encoding=None, headers=None, properties=None),
        b"x",
    ),
    "headers of every type": (envelope(headers=TYPED_HEADERS, properties={}), b"x"),
    "headers that only look like a type": (
        b'{"headers": {"a": {"__type__": "datetime", "__value__": 5}, "b": {"__type__": "", "__value__": 1}}}',
        b"x",
    ),
    "keys nobody knows": (
        envelope(foreign={"a": 1}, properties={"own": [1], "type": "Placed"}, headers={}),
        b"x",
    ),
    "five megabytes": (envelope(headers={}, properties={}), os.urandom(1 << 20) * 5),
    "utf-16 in an encoding that says so": (
        envelope(content_type="text/plain", content_encoding="utf-16", headers={}, properties={}),
        "größe".encode("utf-16"),
    ),
    "a compressed body": (
        envelope(headers={"compression": "application/x-gzip"}, properties={}),
        zlib.compress(b"packed"),
    ),
    "a compression header over a plain body": (
        envelope(headers={"compression": "application/x-gzip"}, properties={}),
        b"not compressed at all",
    ),
    "every field": (
        envelope(
            content_type="application/json",
            content_encoding="utf-8",
            headers={"NServiceBus.MessageId": "m-1"},
            properties={
                "delivery_mode": 1,
                "priority": 9,
                "correlation_id": "c-1",
                "reply_to": "answers",
                "expiration": "600000",
                "message_id": "m-1",
                "timestamp": 1_700_000_000,
                "type": "OrderPlaced",
                "user_id": "ada",
                "app_id": "shop",
                "cluster_id": "here",
            },
        ),
        b"{}",
    ),
}
