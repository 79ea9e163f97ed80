"""The broker's file: connections to it, its messages as rows, and the consumers that hold them.

A stored envelope has no body, and no tag, exchange or routing key, which belong to one delivery.
So its bytes stay the same from queue to queue. Bodies are stored as plain bytes, and passed to
Kombu in base64, as its other transports do.

When a holder's row is deleted, foreign keys make the messages it held ready again, in their
places, and no queue has it as its active consumer any more.
"""

import json
import os
import sqlite3
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock
from time import monotonic
from typing import Any, TypeVar

from kombu.utils import json as kombu_json

from retrier.domain.values import dataclass
from retrier.errors import BrokerUnavailable
from retrier.private_files import make_private_file, make_private_folder
from retrier.processes import Owner, is_gone

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
class QueueRow:
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
class HeldRow:
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


def put_together(held: HeldRow) -> Payload:
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


BUSY_TIMEOUT = 30.0
"""Seconds to wait for other processes that are writing."""
ONE_TRY = 0.25
BETWEEN_TRIES = 0.01
LARGEST_LOG = 64 * 1024 * 1024
APPLICATION_ID = 0x52545231
"""`RTR1`: marks the file as an embedded broker's, in this version of its schema."""
PRAGMAS = (
    "journal_mode=WAL",
    # A commit is what confirms a message: it must survive a power cut.
    "synchronous=FULL",
    "foreign_keys=ON",
    f"journal_size_limit={LARGEST_LOG}",
)

Connection = sqlite3.Connection
T = TypeVar("T")


class CommitUnknown(BrokerUnavailable):
    """The commit failed: the file may or may not hold the change."""


def nothing() -> None:
    """Do nothing while other writers are waited for."""


class BrokerFile:
    """A connection that threads can share: its transactions run one after the other."""

    def __init__(self, path: Path, schema: str, busy_timeout: float = BUSY_TIMEOUT) -> None:
        """Open the file, or create it with its folder. Raises BrokerUnavailable."""
        self.path = path
        self._schema = schema
        self._busy_timeout = busy_timeout
        self._pid = os.getpid()
        self._lock = Lock()
        self._pause = Event()
        self._connection: Connection | None = None
        self._identity: tuple[int, int] | None = None
        try:
            self._persist(self._open, busy_timeout, nothing)
        except BrokerUnavailable:
            self.close()
            raise
        self._identity = self._find_identity()

    def read(self, verb: Callable[[Connection], T]) -> T:
        """Run a function that reads with one statement. Raises BrokerUnavailable."""
        with self._lock:
            connection = self._live()
            return self._persist(lambda: verb(connection), self._busy_timeout, nothing)

    def write(
        self,
        verb: Callable[[Connection], T],
        *,
        waiting: Callable[[], None] = nothing,
        timeout: float | None = None,
    ) -> T:
        """Run a function in a transaction that writes.

        `waiting` is called at least once a second while others write, and its errors are passed
        on. `timeout` is in seconds. Raises CommitUnknown if the commit failed, BrokerUnavailable
        for any earlier error: then nothing is changed.
        """
        with self._lock:
            connection = self._live()
            limit = self._busy_timeout if timeout is None else timeout
            try:
                self._persist(lambda: connection.execute("BEGIN IMMEDIATE"), limit, waiting)
                result = self._translated(lambda: verb(connection), BrokerUnavailable)
                self._translated(lambda: connection.execute("COMMIT"), CommitUnknown)
                # While this waited for other writers, the file may have been deleted.
                self._check_file(CommitUnknown)
            finally:
                # After any error: a transaction left open would lock out all other writers.
                if connection.in_transaction:
                    with suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
            return result

    def close(self) -> None:
        """Close it; never raises."""
        with self._lock, suppress(sqlite3.Error):
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _open(self) -> None:
        try:
            make_private_folder(self.path.parent)
        except OSError as error:
            reason = f"its folder cannot be made: {error.strerror}"
            raise self._unavailable(reason) from error
        if self._connection is None:
            make_private_file(self.path)
            self._connection = sqlite3.connect(
                self.path, timeout=ONE_TRY, isolation_level=None, check_same_thread=False
            )
        if not _is_ours(self._connection):
            self._make(self._connection)
        for pragma in PRAGMAS:
            self._connection.execute(f"PRAGMA {pragma}").fetchall()

    def _make(self, connection: Connection) -> None:
        with connection:  # commits, or rolls back
            connection.execute("BEGIN IMMEDIATE")
            if _is_ours(connection):  # made by another process meanwhile
                return
            if connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall():
                raise self._unavailable("this is a database, but not an embedded broker's")
            for statement in self._schema.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")

    def _live(self) -> Connection:
        if self._connection is None:
            raise self._unavailable("it is closed")
        if os.getpid() != self._pid:
            raise self._unavailable("opened before a fork; connect again in the child")
        self._check_file(BrokerUnavailable)
        return self._connection

    def _check_file(self, kind: type[BrokerUnavailable]) -> None:
        """Raise if the file was deleted or replaced: SQLite would still write to the old one."""
        if self._find_identity() != self._identity:
            raise self._unavailable("the file was deleted or replaced", kind)

    def _find_identity(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _persist(self, act: Callable[[], T], timeout: float, waiting: Callable[[], None]) -> T:
        """Retry while others keep the file busy: SQLite's own timeout may end too early."""
        deadline = monotonic() + timeout
        while True:
            try:
                return act()
            except sqlite3.Error as error:
                if not _is_busy(error) or monotonic() >= deadline:
                    raise self._unavailable(error) from error
            waiting()
            self._pause.wait(BETWEEN_TRIES)

    def _translated(self, act: Callable[[], T], kind: type[BrokerUnavailable]) -> T:
        try:
            return act()
        except sqlite3.Error as error:
            raise self._unavailable(error, kind) from error

    def _unavailable(
        self, reason: object, kind: type[BrokerUnavailable] = BrokerUnavailable
    ) -> BrokerUnavailable:
        return kind(f"the embedded broker {self.path}: {reason}")


def _is_ours(connection: Connection) -> bool:
    ((found,),) = connection.execute("PRAGMA application_id").fetchall()
    return bool(found == APPLICATION_ID)


def _is_busy(error: sqlite3.Error) -> bool:
    primary = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


ENTER = "INSERT INTO holders (boot, space, pid, started, lease, until) VALUES (?, ?, ?, ?, ?, ?)"
RENEW = "UPDATE holders SET until = ? + lease WHERE id = ?"


def enter(conn: Connection, owner: Owner, lease: float, now: float) -> int:
    """Add a holder with a lease of so many seconds; return its number."""
    row = (owner.boot, owner.space, owner.pid, owner.started, lease, now + lease)
    return conn.execute(ENTER, row).lastrowid or 0


def renew(conn: Connection, holder: int, now: float) -> bool:
    """Restart the lease; False if the holder's row is gone."""
    return conn.execute(RENEW, [now, holder]).rowcount == 1


def leave(conn: Connection, holders: Iterable[int]) -> None:
    """Delete the rows of these holders."""
    conn.executemany("DELETE FROM holders WHERE id = ?", [(holder,) for holder in holders])


def find_gone(conn: Connection, me: Owner, now: float) -> list[int]:
    """Return the holders whose process is dead or whose lease ran out, as this process sees it."""
    rows = conn.execute(
        "SELECT id, boot, space, pid, started, lease, until FROM holders"
    ).fetchall()
    return [
        holder
        for holder, boot, space, pid, started, lease, until in rows
        if _has_run_out(lease, until - now)
        or is_gone(Owner(boot=boot, space=space, pid=pid, started=started), me)
    ]


def reap(conn: Connection, me: Owner, now: float, sparing: int | None = None) -> None:
    """End the holders whose process is dead or whose lease ran out, except `sparing`."""
    leave(conn, [holder for holder in find_gone(conn, me, now) if holder != sparing])


def _has_run_out(lease: float, left: float) -> bool:
    # The monotonic clock restarts at each boot: far too much time left is from an earlier boot.
    return not 0 <= left <= 2 * lease
