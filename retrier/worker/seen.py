"""Remembers which retries were handled, so that the second copy of one is acked unhandled.

A crash of Retrier can send one window of retries twice, with the same retry id on both copies. One
that is being handled is claimed for some seconds, over and over: so two processes do not handle the
two copies at the same time, and what a dead process has claimed is free again soon.
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from retrier.clock import Clock
from retrier.errors import ConfigurationError
from retrier.private_files import make_private_file
from retrier.processes import Owner, describe_process, is_gone
from retrier.worker.hand import Held
from retrier.worker.log import LOG
from retrier.worker.outcomes import Done, Ended, SecondCopy

CLAIM = 30.0
"""Seconds for which a claim holds if it is not renewed."""
KEPT = 7 * 86400.0
"""Seconds for which a handled retry is remembered: copies come within minutes of each other."""
LOOK_AGAIN = 0.5
"""Seconds before a message is looked at again whose other copy is being handled."""


@dataclass(frozen=True, slots=True)
class NotHandled:
    """It was not handled before: it may be now."""


@dataclass(frozen=True, slots=True)
class Handled:
    """It was handled before; `result` is what went to the output queue, if that is known."""

    result: bytes | None


@dataclass(frozen=True, slots=True)
class Busy:
    """Another process is handling its other copy at this moment."""


Found = NotHandled | Handled | Busy


class Seen(Protocol):
    """Used by one thread."""

    def begin(self, retry_id: str) -> Found:
        """Say whether the retry may be handled; if so, claim it."""
        ...

    def finish(self, retry_id: str, result: bytes) -> None:
        """Note that it was handled."""
        ...

    def drop(self, retry_id: str) -> None:
        """Give the claim back: it was not handled."""
        ...

    def keep(self, retry_ids: Iterable[str]) -> None:
        """Renew these claims."""
        ...

    def close(self) -> None:
        """Let go of file or connection."""
        ...


def make_seen(given: Any, clock: Clock) -> Seen | None:
    """Return what remembers: for a path or the URL or client of a Redis, or a function."""
    match given:
        case None:
            return None
        case str() if given.startswith(("redis://", "rediss://", "unix://")):
            import redis  # noqa: PLC0415 - an optional library

            return SeenInRedis(redis.Redis.from_url(given))
        case str() | Path():
            return SeenInFile(Path(given), clock)
        case _ if hasattr(given, "set") and hasattr(given, "pexpire"):
            return SeenInRedis(given)
        case _ if callable(given):
            return SeenByFunction(given)
        case _:
            raise ConfigurationError(
                ["seen must be a path, the URL of a Redis, a Redis client or a function"]
            )


class SeenByFunction:
    """Asks a function, and leaves it to the handler to remember: best in its own transaction."""

    def __init__(self, ask: Callable[[str], object]) -> None:
        self._ask = ask

    def begin(self, retry_id: str) -> Found:
        """See Seen."""
        return Handled(None) if self._ask(retry_id) else NotHandled()

    def finish(self, retry_id: str, result: bytes) -> None:
        """Do nothing: the handler has remembered it."""

    def drop(self, retry_id: str) -> None:
        """Do nothing: there are no claims."""

    def keep(self, retry_ids: Iterable[str]) -> None:
        """Do nothing: there are no claims."""

    def close(self) -> None:
        """Do nothing."""


class SeenInFile:
    """A small SQLite file, for the processes of one machine."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """Open or make the file."""
        self._clock = clock
        self._me = describe_process()
        make_private_file(path)
        # No `with`: these connections commit each statement, and begin where they need more.
        self._conn = sqlite3.connect(path, timeout=30, isolation_level=None)
        self._conn.execute("PRAGMA journal_mode=WAL")
        self._conn.execute("PRAGMA synchronous=FULL")
        self._conn.execute(
            "CREATE TABLE IF NOT EXISTS seen (retry_id TEXT PRIMARY KEY, until REAL NOT NULL,"
            " handled INTEGER NOT NULL, result BLOB, boot TEXT, space TEXT, pid INTEGER,"
            " started TEXT)"
        )
        self._conn.execute("DELETE FROM seen WHERE until < ?", [self._now()])

    def begin(self, retry_id: str) -> Found:
        """See Seen."""
        self._conn.execute("BEGIN IMMEDIATE")
        try:
            found = self._look(retry_id)
            if found == NotHandled():
                self._write(retry_id, CLAIM, handled=False, result=None)
        finally:
            self._conn.execute("COMMIT")
        return found

    def finish(self, retry_id: str, result: bytes) -> None:
        """See Seen."""
        self._write(retry_id, KEPT, handled=True, result=result)

    def drop(self, retry_id: str) -> None:
        """See Seen."""
        self._conn.execute("DELETE FROM seen WHERE retry_id = ? AND NOT handled", [retry_id])

    def keep(self, retry_ids: Iterable[str]) -> None:
        """See Seen."""
        until = self._now() + CLAIM
        renew = "UPDATE seen SET until = ? WHERE retry_id = ? AND NOT handled"
        self._conn.executemany(renew, [(until, each) for each in retry_ids])

    def close(self) -> None:
        """Close the file."""
        self._conn.close()

    def _look(self, retry_id: str) -> Found:
        columns = "handled, result, until, boot, space, pid, started"
        with closing(
            self._conn.execute(f"SELECT {columns} FROM seen WHERE retry_id = ?", [retry_id])  # noqa: S608
        ) as rows:
            row = rows.fetchone()
        if row is None:
            return NotHandled()
        handled, result, until, boot, space, pid, started = row
        if handled:
            return Handled(result)
        owner = Owner(boot=boot, space=space, pid=pid, started=started)
        is_free = owner == self._me or until < self._now() or is_gone(owner, self._me)
        return NotHandled() if is_free else Busy()

    def _write(self, retry_id: str, seconds: float, *, handled: bool, result: bytes | None) -> None:
        me = self._me
        row = (retry_id, self._now() + seconds, handled, result)
        self._conn.execute(
            "INSERT OR REPLACE INTO seen VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (*row, me.boot, me.space, me.pid, me.started),
        )

    def _now(self) -> float:
        return self._clock.now().timestamp()


class SeenInRedis:
    """Keys in a Redis, for processes anywhere."""

    def __init__(self, client: Any, prefix: str = "retrier.seen.") -> None:
        self._client = client
        self._prefix = prefix
        self._claim = b"claimed by " + uuid4().hex.encode()

    def begin(self, retry_id: str) -> Found:
        """See Seen."""
        key = self._prefix + retry_id
        if self._client.set(key, self._claim, nx=True, px=int(CLAIM * 1000)):
            return NotHandled()
        found = self._client.get(key)
        match found:
            case None:  # it has run out a moment ago
                return Busy()
            case self._claim:
                return NotHandled()
            case bytes() if found.startswith(b"claimed by "):
                return Busy()
            case _:
                return Handled(bytes(found))

    def finish(self, retry_id: str, result: bytes) -> None:
        """See Seen."""
        self._client.set(self._prefix + retry_id, result, px=int(KEPT * 1000))

    def drop(self, retry_id: str) -> None:
        """See Seen."""
        key = self._prefix + retry_id
        if self._client.get(key) == self._claim:
            self._client.delete(key)

    def keep(self, retry_ids: Iterable[str]) -> None:
        """See Seen."""
        for each in retry_ids:
            self._client.pexpire(self._prefix + each, int(CLAIM * 1000))

    def close(self) -> None:
        """Do nothing: the client may be somebody else's."""


class SecondCopies:
    """Asks before a handler is started, and notes when it has returned."""

    def __init__(self, given: Any, clock: Clock) -> None:
        self._seen = make_seen(given, clock)
        self._clock = clock
        self._kept = clock.monotonic()

    def begin(self, held: Held) -> SecondCopy | None:
        """Return that it was handled before; or None, with `not_before` set if it has to wait."""
        if self._seen is None or held.retry_id is None:
            return None
        try:
            found = self._seen.begin(held.retry_id)
        except Exception:  # noqa: BLE001 - somebody else's
            LOG.exception("it cannot be found out which retries were handled; the message waits")
            found = Busy()
        match found:
            case NotHandled():
                return None
            case Handled(result):
                return SecondCopy(result)
            case Busy():
                held.not_before = self._clock.monotonic() + LOOK_AGAIN
                return None

    def end(self, held: Held, ended: Ended, result_of: Callable[[Held, Done], bytes]) -> None:
        """Note that it was handled, or that it was not. Before anything is published.

        After a crash in between, the result is published by who finds the message handled.
        """
        if self._seen is None or held.retry_id is None:
            return
        try:
            if isinstance(ended, Done):
                self._seen.finish(held.retry_id, result_of(held, ended))
            else:
                self._seen.drop(held.retry_id)
        except Exception:  # noqa: BLE001 - somebody else's
            LOG.exception("a retry that was handled cannot be remembered as such")

    def keep(self, running: Sequence[Held]) -> None:
        """Renew the claims of what is being handled, when that is due."""
        now = self._clock.monotonic()
        if self._seen is None or now - self._kept < CLAIM / 3:
            return
        self._kept = now
        try:
            self._seen.keep([held.retry_id for held in running if held.retry_id is not None])
        except Exception:  # noqa: BLE001 - somebody else's
            LOG.exception("the claims of retries cannot be renewed")

    def close(self) -> None:
        """Let go of file or connection."""
        if self._seen is not None:
            self._seen.close()
