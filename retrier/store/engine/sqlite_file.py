"""The files of an SQLite database: whether what is written still goes where their path leads."""

from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any

from retrier.errors import DatabaseUnavailable

Identity = tuple[int, int]
"""Device and inode: what a file is, whatever it is called."""

_LOGS = ("-wal", "-shm")


class SqliteFile:
    """One database file, its write-ahead log and that log's index, as this process opened them.

    SQLite goes on with files that are deleted, moved or replaced: all that it commits from then on
    is gone with the process. A log lives for as long as any connection is open; the last one to
    close has put all of it into the database, and deletes it.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._place = self._path.resolve()
        # They lie beside the file itself, and not beside a link to it.
        self._log_paths = [Path(f"{self._place}{suffix}") for suffix in _LOGS]
        self._lock = Lock()
        self._open = 0
        self._file: Identity | None = None
        self._logs: tuple[Identity | None, ...] = ()

    def note_opened(self, connection: Any, _record: object) -> None:
        """Note which files these are, at the first connection."""
        # Only who reads opens the log.
        connection.execute("SELECT 1 FROM sqlite_master").fetchall()
        with self._lock:
            self._open += 1
            if self._open == 1:
                self._file = self._file or _identify(self._path)
                self._logs = tuple(self._identify_logs())

    def note_closed(self, _connection: Any, _record: object) -> None:
        """Expect no log after the last connection."""
        with self._lock:
            self._open -= 1
            if self._open == 0:
                self._logs = ()

    def check(self) -> None:
        """Raise DatabaseUnavailable if these are not the files any more; they may come back."""
        if self._file is None:
            return
        if _identify(self._path) != self._file:
            raise DatabaseUnavailable(
                f"cannot reach the database at {self._place}: its file was deleted, moved or "
                "replaced; put it back, or restart Retrier to go on with what is there now"
            )
        if logs := self._logs:
            self._check_logs(logs)

    def _check_logs(self, logs: tuple[Identity | None, ...]) -> None:
        if tuple(self._identify_logs()) != logs:
            raise DatabaseUnavailable(
                f"cannot reach the database at {self._place}: its -wal or -shm file was deleted, "
                "moved or replaced; stop Retrier, which saves what was in it, and start it again"
            )

    def _identify_logs(self) -> Iterator[Identity | None]:
        return map(_identify, self._log_paths)


def _identify(path: Path) -> Identity | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
