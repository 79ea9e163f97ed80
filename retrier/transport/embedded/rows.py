"""What goes into the broker's file and comes out of it: rows, and the envelopes of Kombu messages.

A stored envelope has no body, and no tag, exchange or routing key, which belong to one delivery.
So its bytes stay the same from queue to queue. Bodies are stored as plain bytes, and passed to
Kombu in base64, as its other transports do.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kombu.utils import json as kombu_json

from retrier.errors import BrokerUnavailable

BASE64 = "base64"
KOMBU_JSON: Any = kombu_json
"""Any, because Kombu has types for half of itself only."""

Payload = dict[str, Any]


LARGEST_MESSAGE = 128 * 1024 * 1024
"""Most bytes of properties and body: a message is held in memory as a whole, several times."""


class HoldLost(BrokerUnavailable):
    """The lease ran out and another process ended it: the messages go to other consumers."""


class QueueGone(BrokerUnavailable):
    """The queue that is being consumed was deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """A message for a queue: its envelope without the body, the body, and how it was sent."""

    queue: str
    exchange: str
    routing_key: str
    raw: bytes
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue as it was just read. `active` is the only holder that may be handed messages."""

    id: int
    name: str
    single_active: bool
    active: int | None
    has_ready: bool


@dataclass(frozen=True, slots=True)
class Tag:
    """Names one delivery of one message to one holder; no tag is ever used again."""

    message: int
    holder: int
    delivery: int

    def __str__(self) -> str:
        return f"{self.message}-{self.holder}-{self.delivery}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A message that was handed to a holder."""

    tag: Tag
    exchange: str
    routing_key: str
    raw: bytes
    body: bytes

    @property
    def redelivered(self) -> bool:
        """Whether it was handed out before."""
        return self.tag.delivery > 1


def parse_tag(text: str) -> Tag:
    """Read a tag that was written as text. Raises ValueError."""
    message, holder, delivery = text.split("-")
    return Tag(int(message), int(holder), int(delivery))


def why_too_large(raw: bytes, body: bytes) -> str | None:
    """Return why a message is too large, or None."""
    size = len(raw) + len(body)
    if size <= LARGEST_MESSAGE:
        return None
    return f"{size} bytes: the embedded broker takes at most {LARGEST_MESSAGE}"


# AUTOINCREMENT: with a number used twice, an old tag could settle a new message.
SCHEMA = """
CREATE TABLE holders (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    boot TEXT NOT NULL, space TEXT NOT NULL, pid INTEGER NOT NULL, started TEXT NOT NULL,
    lease REAL NOT NULL, until REAL NOT NULL
);
CREATE TABLE queues (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    single_active INTEGER NOT NULL,
    active INTEGER REFERENCES holders ON DELETE SET NULL
);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue INTEGER NOT NULL REFERENCES queues ON DELETE CASCADE,
    exchange TEXT NOT NULL, routing_key TEXT NOT NULL,
    holder INTEGER REFERENCES holders ON DELETE SET NULL,
    deliveries INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE contents (
    message INTEGER PRIMARY KEY REFERENCES messages ON DELETE CASCADE,
    raw BLOB NOT NULL, body BLOB NOT NULL
);
CREATE INDEX ready ON messages (queue) WHERE holder IS NULL;
CREATE INDEX held ON messages (holder, queue) WHERE holder IS NOT NULL
"""


Store = Callable[[Sequence[Parcel]], None]


class PublishBatch:
    """What `Producer.batch` collects into: stored when it is full, flushed, or at its end."""

    def __init__(self, channel: Any, store: Store, max_size: int) -> None:
        self.channel = channel
        self._store = store
        self._max_size = max_size
        self._parcels: list[Parcel] = []

    def publish(self, message: dict[str, Any], **options: object) -> None:
        """Route one message: the channel calls `add` for each queue it goes to."""
        self.channel.basic_publish(message, batch=self, **options)
        if len(self._parcels) >= self._max_size:
            self.flush()

    def add(self, parcel: Parcel) -> None:
        """Collect one message for one queue."""
        self._parcels.append(parcel)

    def flush(self) -> None:
        """Store what was collected, all of it or nothing."""
        parcels, self._parcels = self._parcels, []
        if parcels:
            self._store(parcels)

    def discard(self) -> None:
        """Drop what was collected."""
        self._parcels = []

    def close(self) -> None:
        """Do nothing: a batch holds no resources."""


def take_apart(queue: str, payload: Mapping[str, Any]) -> Parcel:
    """Return the parcel to store for a payload. Raises TypeError for headers JSON cannot hold."""
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
    """Return the payload from which Kombu makes a message."""
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
        # A header looks like a typed value of Kombu's but is none: plain JSON can still be read.
        payload = json.loads(raw)
    return payload
