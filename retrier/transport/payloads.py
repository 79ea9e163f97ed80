"""The payload of a message as Kombu's virtual transports store it: an envelope in JSON, with its body.

The body is in base64. Beside the message's own properties stand some that belong to one delivery
(OWN): they are made when it is published, and are no part of the raw properties.
"""

import json
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from typing import Any

from retrier.domain.values import dataclass
from retrier.domain.wire import Outgoing

OWN = frozenset({"delivery_tag", "delivery_info", "body_encoding"})
"""Properties that belong to one delivery, and not to the message."""
REDELIVERED = "redelivered"
"""Kombu writes it into the headers, and into `delivery_info`, of what it puts back into a queue."""
NO_ENVELOPE = b""
"""The raw properties of a payload that Kombu did not write: its body is the whole of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """A payload taken apart: raw properties, body, and what is known of its delivery."""

    raw: bytes
    body: bytes
    redelivered: bool = False
    routing_key: str = ""
    """The key with which an exchange routed it; empty if it was sent by the queue's name."""


def make_payload(message: Outgoing, tag: str) -> bytes:
    """Return the payload of a message; `tag` names this delivery. Raises ValueError.

    What lay in a queue without an envelope goes back as it came.
    """
    if message.raw == NO_ENVELOPE:
        return message.body
    envelope: dict[str, Any] = json.loads(message.raw)
    own = {
        "body_encoding": "base64",
        "delivery_tag": tag,
        "delivery_info": {"exchange": "", "routing_key": message.queue},
    }
    properties = {**(envelope.get("properties") or {}), **own}
    body = b64encode(message.body).decode()
    return json.dumps({**envelope, "body": body, "properties": properties}).encode()


def why_no_payload(raw: bytes) -> str | None:
    """Return why no payload can be made with these raw properties; None if one can.

    They need not be readable: what nobody can read goes back as it came, too.
    """
    if raw == NO_ENVELOPE:
        return None
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError) as error:
        return f"the envelope is not JSON: {error}"
    if not isinstance(found, dict) or not isinstance(found.get("properties") or {}, dict):
        return "the envelope and its properties are not JSON objects"
    return None


def priority_of(message: Outgoing) -> int:
    """Return the priority of a message, which is 0 where it has none that Kombu could use."""
    if message.raw == NO_ENVELOPE:
        return 0
    found = (json.loads(message.raw).get("properties") or {}).get("priority")
    return max(0, min(found, _HIGHEST)) if type(found) is int else 0


_HIGHEST = 9


def read_payload(payload: bytes) -> Parcel:
    """Take a payload apart. One that Kombu did not write becomes a body without an envelope."""
    envelope = _load(payload)
    if envelope is None:
        return Parcel(raw=NO_ENVELOPE, body=payload)
    properties = envelope["properties"]
    info = properties.get("delivery_info")
    info = info if isinstance(info, dict) else {}
    body = _decode(envelope["body"], properties.get("body_encoding"))
    if body is None:
        return Parcel(raw=NO_ENVELOPE, body=payload)
    kept = {name: value for name, value in envelope.items() if name not in ("body", REDELIVERED)}
    kept["properties"] = {name: value for name, value in properties.items() if name not in OWN}
    headers = envelope.get("headers")
    came_back = isinstance(headers, dict) and headers.get(REDELIVERED) is True
    if came_back and isinstance(headers, dict):
        # Else the message would have another fingerprint after Kombu has put it back.
        kept["headers"] = {name: each for name, each in headers.items() if name != REDELIVERED}
    routed = info.get("routing_key") if info.get("exchange") else ""
    return Parcel(
        raw=json.dumps(kept).encode(),
        body=body,
        redelivered=came_back or bool(envelope.get(REDELIVERED) or info.get(REDELIVERED)),
        routing_key=routed if isinstance(routed, str) else "",
    )


def mark_redelivered(payload: bytes) -> bytes:
    """Return the payload marked as delivered before; one that Kombu did not write stays as it is.

    Only `delivery_info` is marked: it is no part of the message.
    """
    envelope = _load(payload)
    if envelope is None:
        return payload
    info = envelope["properties"].get("delivery_info")
    marked = {**(info if isinstance(info, dict) else {}), REDELIVERED: True}
    envelope["properties"]["delivery_info"] = marked
    return json.dumps(envelope).encode()


def _load(payload: bytes) -> dict[str, Any] | None:
    """Return the envelope; None if that is none. Kombu's typed values stay as they are written."""
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    # Headers as PHP writes none are a list. With others Kombu could not have written it.
    is_envelope = (
        isinstance(found, dict)
        and isinstance(found.get("body"), str | None)
        and "body" in found
        and isinstance(found.get("properties"), dict)
        and (found.get("headers") == [] or isinstance(found.get("headers"), dict | None))
    )
    return found if is_envelope else None


def _decode(body: str | None, encoding: object) -> bytes | None:
    if body is None:
        return b""
    if encoding != "base64":
        return body.encode("utf-8", "surrogatepass")
    try:
        return b64decode(body)
    except (NotBase64, ValueError):
        return None
