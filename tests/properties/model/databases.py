"""Where the examples of a run find their databases: each begins with an empty one."""

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from shutil import copyfile
from typing import Protocol

from retrier.store.engine.database import Database
from tests.support.databases import (
    empty,
    open_database,
    open_upgraded,
    path_of,
    sqlite_url,
    temporary_postgres,
)
from tests.support.servers import POSTGRES, found


class Databases(Protocol):
    """One kind of database."""

    def open(self) -> Database:
        """Open an empty database; the one before is needed no more."""
        ...


class Files:
    """A new SQLite file for each example, copied from one that is upgraded."""

    def __init__(self, folder: Path) -> None:
        url = sqlite_url(folder)
        open_upgraded(url).dispose()
        self._upgraded = path_of(url)
        self._url = sqlite_url(folder)
        self._last: Database | None = None

    def close(self) -> None:
        """Let go of the last one."""
        if self._last is not None:
            self._last.dispose()

    def open(self) -> Database:
        self.close()
        for leftover in path_of(self._url).parent.glob(f"{path_of(self._url).name}*"):
            leftover.unlink()
        copyfile(self._upgraded, path_of(self._url))
        self._last = open_database(self._url)
        return self._last


class Emptied:
    """One database on PostgreSQL, emptied before each example."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def open(self) -> Database:
        empty(self._db)
        return self._db


@contextmanager
def databases(kind: str) -> Iterator[Databases]:
    """Give databases of this kind, `sqlite` or `postgres`; they are dropped afterwards."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory() as folder, closing(Files(Path(folder))) as files:
            yield files
        return
    with found(POSTGRES) as server, temporary_postgres(server) as url:
        db = open_upgraded(url)
        try:
            yield Emptied(db)
        finally:
            db.dispose()
