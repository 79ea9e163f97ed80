"""One connection to the broker's file, and the rows of the consumers that hold messages in it.

When a holder's row is deleted, foreign keys make the messages it held ready again, in their
places, and no queue has it as its active consumer any more.
"""

import os
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock
from time import monotonic
from typing import TypeVar

from retrier.errors import BrokerUnavailable
from retrier.private_files import make_private_file, make_private_folder
from retrier.processes import Owner, is_gone

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
