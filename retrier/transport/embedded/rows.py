"""What goes into the broker's file and comes out of it."""

from dataclasses import dataclass

from retrier.errors import BrokerUnavailable

LARGEST_MESSAGE = 128 * 1024 * 1024
"""Bytes of properties and body together: a message is in memory as a whole, several times."""


class HoldLost(BrokerUnavailable):
    """The lease ran out and was taken: others are handed the messages."""


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
    """A queue as it is at the moment. `active` is the holder that alone may be handed messages."""

    id: int
    name: str
    single_active: bool
    active: int | None
    has_ready: bool


@dataclass(frozen=True, slots=True)
class Tag:
    """One handing out of one message to one holder; no other one ever has the same tag."""

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
    """Say why a message is too large; None for one that is not."""
    size = len(raw) + len(body)
    if size <= LARGEST_MESSAGE:
        return None
    return f"{size} bytes: the embedded broker takes at most {LARGEST_MESSAGE}"


# AUTOINCREMENT: a number that came back would let an old tag settle a new message.
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
