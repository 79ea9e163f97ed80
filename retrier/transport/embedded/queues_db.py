"""Queues and their messages in the broker's file.

A message is either ready or held. A held one names its holder, to which it was handed out.
"""

from collections.abc import Callable, Iterable, Sequence
from time import monotonic

from retrier.processes import Owner
from retrier.transport.embedded.broker_file import (
    BrokerFile,
    Connection,
    HeldRow,
    HoldLost,
    Parcel,
    QueueGone,
    QueueRow,
    Tag,
    enter,
    find_gone,
    leave,
    nothing,
    reap,
    renew,
)

LOOK = """
SELECT id, single_active, active,
       EXISTS (SELECT 1 FROM messages WHERE queue = queues.id AND holder IS NULL)
FROM queues WHERE name = ?
"""
COUNT_READY = """
SELECT (SELECT count(*) FROM messages WHERE queue = queues.id AND holder IS NULL)
FROM queues WHERE name = ?
"""
PUT = (
    "INSERT INTO messages (queue, exchange, routing_key) SELECT id, ?, ? FROM queues WHERE name = ?"
)
PUT_CONTENT = "INSERT INTO contents VALUES (last_insert_rowid(), ?, ?)"
# A new active consumer waits until no other holds a message: messages put back keep their order.
TAKE_TURN = """
UPDATE queues SET active = :holder
WHERE id = :queue AND (active IS NULL OR active = :holder)
  AND NOT EXISTS (SELECT 1 FROM messages WHERE queue = :queue AND holder <> :holder)
"""
CLAIM = """
UPDATE messages SET holder = :holder, deliveries = deliveries + 1
WHERE id IN (SELECT id FROM messages WHERE queue = :queue AND holder IS NULL ORDER BY id LIMIT :limit)
RETURNING id, deliveries
"""
READ = """
SELECT exchange, routing_key, raw, body FROM messages JOIN contents ON message = id WHERE id = ?
"""
FORGET = "DELETE FROM messages WHERE id = ? AND holder = ? AND deliveries = ?"
GIVE_BACK = "UPDATE messages SET holder = NULL WHERE id = ? AND holder = ? AND deliveries = ?"


class _Missing(Exception):
    """Raised to roll back a transaction: all of its messages are stored, or none."""

    def __init__(self, queue: str) -> None:
        self.queue = queue


class QueuesDb:
    """What can be done to queues, messages and holders, mostly in one transaction each.

    All methods raise BrokerUnavailable.
    """

    def __init__(
        self, file: BrokerFile, owner: Owner, clock: Callable[[], float] = monotonic
    ) -> None:
        """`clock` returns seconds, and must be the same for all processes of the machine."""
        self._file = file
        self._owner = owner
        self._clock = clock

    @property
    def place(self) -> str:
        """The path of the file."""
        return str(self._file.path)

    def look(self, name: str) -> QueueRow | None:
        """Return a queue, or None when there is none; cheap, takes no lock."""
        return self._file.read(lambda conn: _look(conn, name))

    def declare(self, name: str, *, single_active: bool) -> QueueRow:
        """Return the queue of that name, declared if it is missing, else unchanged."""
        return self.look(name) or self._file.write(
            lambda conn: _look(conn, name) or _declare(conn, name, single_active=single_active)
        )

    def declare_single_active(self, name: str) -> int:
        """Make sure that a queue exists and has a single active consumer.

        An empty queue without one is deleted and declared again. Returns 0, or how many messages
        are in a queue that is not empty: it stays unchanged.
        """
        return self._file.write(lambda conn: _declare_single_active(conn, name))

    def delete(self, name: str) -> None:
        """Delete a queue with all it holds; a missing one is fine."""
        self._file.write(lambda conn: conn.execute("DELETE FROM queues WHERE name = ?", [name]))

    def purge(self, name: str) -> int | None:
        """Drop all ready messages; return how many, or None when there is no such queue."""
        return self._file.write(lambda conn: self._purge(conn, name))

    def count_ready(self, name: str) -> int | None:
        """Return how many messages are ready, or None when there is no such queue."""
        if self.anyone_gone():
            self.reap()
        rows = self._file.read(lambda conn: conn.execute(COUNT_READY, [name]).fetchall())
        return int(rows[0][0]) if rows else None

    def put(self, parcels: Sequence[Parcel], waiting: Callable[[], None] = nothing) -> list[bool]:
        """Store messages at the end of their queues; return for each if its queue exists."""
        return self._file.write(
            lambda conn: [_put(conn, parcel) for parcel in parcels], waiting=waiting
        )

    def put_all(self, parcels: Sequence[Parcel]) -> str | None:
        """Store all messages and return None, or none and return the queue that is missing."""
        try:
            self._file.write(lambda conn: _put_all(conn, parcels))
        except _Missing as missing:
            return missing.queue
        return None

    def claim(self, queue: QueueRow, holder: int, limit: int) -> list[HeldRow]:
        """Hand the oldest ready messages to a holder, and renew the holder's lease.

        Raises HoldLost, QueueGone.
        """
        return self._file.write(lambda conn: self._claim(conn, queue, holder, limit))

    def forget(self, tags: Iterable[Tag]) -> int:
        """Delete messages that are still held under these tags; return how many."""
        return self._settle(FORGET, tags)

    def give_back(self, tags: Iterable[Tag]) -> int:
        """Make messages ready that are still held under these tags; return how many."""
        return self._settle(GIVE_BACK, tags)

    def step_down(self, queue: QueueRow) -> None:
        """Free the place of the active consumer, if it is still the one in `queue`."""
        statement = "UPDATE queues SET active = NULL WHERE id = ? AND active = ?"
        self._file.write(lambda conn: conn.execute(statement, [queue.id, queue.active]))

    def enter(self, lease: float) -> int:
        """Add a holder with a lease of so many seconds; return its number."""
        return self._file.write(lambda conn: enter(conn, self._owner, lease, self._clock()))

    def renew(self, holder: int, timeout: float) -> bool:
        """Restart the lease; False if it had run out and the holder was ended."""
        return self._file.write(lambda conn: renew(conn, holder, self._clock()), timeout=timeout)

    def leave(self, holder: int, timeout: float) -> None:
        """End a holder: what it holds is ready again."""
        self._file.write(lambda conn: leave(conn, [holder]), timeout=timeout)

    def anyone_gone(self) -> bool:
        """Return whether any holder's process is dead or its lease has run out."""
        return bool(self._file.read(lambda conn: find_gone(conn, self._owner, self._clock())))

    def reap(self) -> None:
        """End all holders whose process is dead or whose lease has run out."""
        self._file.write(lambda conn: reap(conn, self._owner, self._clock()))

    def close(self) -> None:
        """Close the file; never raises."""
        self._file.close()

    def _settle(self, statement: str, tags: Iterable[Tag]) -> int:
        keys = [(tag.message, tag.holder, tag.delivery) for tag in tags]
        if not keys:
            return 0
        return self._file.write(lambda conn: conn.executemany(statement, keys).rowcount)

    def _claim(self, conn: Connection, queue: QueueRow, holder: int, limit: int) -> list[HeldRow]:
        # Before the claim: messages of dead holders go back to their places, so order is kept.
        now = self._clock()
        reap(conn, self._owner, now, sparing=holder)
        if not renew(conn, holder, now):
            raise HoldLost(f"the embedded broker {self.place}: the lease on its messages ran out")
        if not conn.execute("SELECT 1 FROM queues WHERE id = ?", [queue.id]).fetchall():
            raise QueueGone(f"the embedded broker {self.place}: queue {queue.name!r} was deleted")
        names = {"queue": queue.id, "holder": holder, "limit": limit}
        if queue.single_active and conn.execute(TAKE_TURN, names).rowcount == 0:
            return []
        claimed = sorted(conn.execute(CLAIM, names).fetchall())
        return [_read(conn, Tag(message, holder, delivery)) for message, delivery in claimed]

    def _purge(self, conn: Connection, name: str) -> int | None:
        reap(conn, self._owner, self._clock())
        queue = _look(conn, name)
        if queue is None:
            return None
        statement = "DELETE FROM messages WHERE queue = ? AND holder IS NULL"
        return conn.execute(statement, [queue.id]).rowcount


def _look(conn: Connection, name: str) -> QueueRow | None:
    for number, single_active, active, ready in conn.execute(LOOK, [name]).fetchall():
        return QueueRow(
            id=number,
            name=name,
            single_active=bool(single_active),
            active=active,
            has_ready=bool(ready),
        )
    return None


def _declare(conn: Connection, name: str, *, single_active: bool) -> QueueRow:
    statement = "INSERT INTO queues (name, single_active) VALUES (?, ?)"
    number = conn.execute(statement, [name, single_active]).lastrowid or 0
    return QueueRow(id=number, name=name, single_active=single_active, active=None, has_ready=False)


def _declare_single_active(conn: Connection, name: str) -> int:
    queue = _look(conn, name)
    if queue is not None and queue.single_active:
        return 0
    if queue is not None:
        statement = "SELECT count(*) FROM messages WHERE queue = ?"
        ((messages,),) = conn.execute(statement, [queue.id]).fetchall()
        if messages:
            return int(messages)
        conn.execute("DELETE FROM queues WHERE id = ?", [queue.id])
    _declare(conn, name, single_active=True)
    return 0


def _put(conn: Connection, parcel: Parcel) -> bool:
    row = (parcel.exchange, parcel.routing_key, parcel.queue)
    if conn.execute(PUT, row).rowcount == 0:
        return False
    conn.execute(PUT_CONTENT, (parcel.raw, parcel.body))
    return True


def _put_all(conn: Connection, parcels: Sequence[Parcel]) -> None:
    for parcel in parcels:
        if not _put(conn, parcel):
            raise _Missing(parcel.queue)


def _read(conn: Connection, tag: Tag) -> HeldRow:
    ((exchange, routing_key, raw, body),) = conn.execute(READ, [tag.message]).fetchall()
    return HeldRow(tag=tag, exchange=exchange, routing_key=routing_key, raw=raw, body=body)
