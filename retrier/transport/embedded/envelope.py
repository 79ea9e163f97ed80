"""A message as Kombu's programs hand it over, and as it lies in the broker's file.

In the file the envelope has no body, and nothing of one delivery: tag, exchange and routing key.
So it stays the same bytes from queue to queue. Bodies are plain bytes; Kombu is given them in
base64, as by its other transports.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

from kombu.utils import json as kombu_json

from retrier.transport.embedded.rows import Held, Parcel

BASE64 = "base64"
KOMBU_JSON: Any = kombu_json
"""Kombu types half of itself."""

Payload = dict[str, Any]


def take_apart(queue: str, payload: Mapping[str, Any]) -> Parcel:
    """Return what is stored of a payload. Raises TypeError for headers that JSON cannot hold."""
    properties = dict(payload.get("properties") or {})
    encoding = properties.pop("body_encoding", None)
    info = properties.pop("delivery_info", None) or {}
    properties.pop("delivery_tag", None)
    envelope = {name: value for name, value in payload.items() if name != "body"}
    return Parcel(
        queue=queue,
        exchange=str(info.get("exchange") or ""),
        routing_key=str(info.get("routing_key") or queue),
        raw=KOMBU_JSON.dumps({**envelope, "properties": properties}).encode(),
        body=_body_bytes(payload.get("body"), encoding),
    )


def put_together(held: Held) -> Payload:
    """Return the payload that Kombu makes a message of."""
    payload = _load(held.raw)
    return {
        **payload,
        "body": b64encode(held.body).decode(),
        "properties": {
            **(payload.get("properties") or {}),
            "body_encoding": BASE64,
            "delivery_tag": str(held.tag),
            "delivery_info": {
                "exchange": held.exchange,
                "routing_key": held.routing_key,
                "redelivered": held.redelivered,
                "delivery_count": held.tag.delivery - 1,
            },
        },
    }


def _body_bytes(body: object, encoding: str | None) -> bytes:
    match body:
        case None:
            return b""
        case str() if encoding == BASE64:
            return b64decode(body)
        case str():
            return body.encode()
        case _:
            return bytes(memoryview(body))  # type: ignore[arg-type]  # bytes in one of their forms


def _load(raw: bytes) -> Payload:
    try:
        payload: Payload = KOMBU_JSON.loads(raw)
    except (ValueError, TypeError, AttributeError, ArithmeticError):
        # A header only looks like one of Kombu's types: shown as it is, the message can be taken.
        payload = json.loads(raw)
    return payload
