"""The files of an SQLite database: read-only, deleted, moved, replaced."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest
from sqlalchemy import Connection, event, select

from retrier.errors import DatabaseUnavailable
from retrier.store.engine.database import Database
from retrier.store.schema import counters
from retrier.store.upkeep import probe_read, probe_write
from tests.support.databases import open_database, open_upgraded, sqlite_url

LOGS = ("-wal", "-shm")
GONE = "deleted, moved or replaced"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    """Give an SQLite database that is in use."""
    made = open_upgraded(sqlite_url(tmp_path))
    probe_write(made)
    yield made
    made.dispose()


@pytest.fixture
def path(db: Database) -> Path:
    """Give its file."""
    return Path(db.place)


def add(name: str) -> Callable[[Connection], object]:
    return lambda conn: conn.execute(counters.insert(), [{"name": name, "value": 1}])


def names(db: Database) -> list[str]:
    query = select(counters.c.name).order_by(counters.c.name)
    return db.read(lambda conn: list(conn.execute(query).scalars()))


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def test_a_file_that_is_opened_and_read_keeps_every_byte(db: Database, path: Path) -> None:
    db.dispose()
    before = path.read_bytes()

    again = open_database(f"sqlite:///{path}")
    names(again)
    again.dispose()

    assert path.read_bytes() == before


class TestAFileThatIsGone:
    @pytest.mark.parametrize("suffix", ["", *LOGS])
    def test_takes_no_writes(self, db: Database, path: Path, suffix: str) -> None:
        beside(path, suffix).unlink()

        with pytest.raises(DatabaseUnavailable, match=GONE):
            db.transact(add("one"))

    @pytest.mark.parametrize("suffix", ["", *LOGS])
    def test_is_not_read(self, db: Database, path: Path, suffix: str) -> None:
        beside(path, suffix).unlink()

        with pytest.raises(DatabaseUnavailable, match=GONE):
            probe_read(db)

    def test_is_noticed_though_it_goes_before_the_commit(self, db: Database, path: Path) -> None:
        def verb(conn: Connection) -> None:
            add("one")(conn)
            path.unlink()

        with pytest.raises(DatabaseUnavailable, match=GONE):
            db.transact(verb)

    def test_is_not_made_anew(self, db: Database, path: Path) -> None:
        for suffix in ("", *LOGS):
            beside(path, suffix).unlink()
        db.engine.dispose()

        with pytest.raises(DatabaseUnavailable, match=GONE):
            probe_write(db)

        assert not path.exists()

    def test_is_not_taken_for_another_in_its_place(self, db: Database, path: Path) -> None:
        other = open_upgraded(sqlite_url(path.parent))
        other.dispose()
        Path(other.place).replace(path)

        with pytest.raises(DatabaseUnavailable, match=GONE):
            probe_write(db)

    @pytest.mark.parametrize("suffix", ["", *LOGS])
    def test_may_come_back(self, db: Database, path: Path, suffix: str) -> None:
        db.transact(add("one"))
        kept = path.with_name("kept")
        beside(path, suffix).replace(kept)
        with pytest.raises(DatabaseUnavailable):
            db.transact(add("two"))

        kept.replace(beside(path, suffix))
        db.transact(add("three"))

        assert names(db) == ["one", "three"]

    def test_has_all_that_was_in_its_deleted_log_after_a_stop(
        self, db: Database, path: Path
    ) -> None:
        db.transact(add("one"))
        beside(path, "-wal").unlink()

        db.dispose()

        again = open_database(f"sqlite:///{path}")
        assert names(again) == ["one"]
        again.dispose()


class TestALogThatIsNotGone:
    def test_is_looked_for_beside_the_file_and_not_beside_a_link(
        self, db: Database, path: Path
    ) -> None:
        link = path.with_name("link.db")
        link.symlink_to(path)
        linked = open_database(f"sqlite:///{link}")

        linked.transact(add("one"))

        assert names(db) == ["one"]
        linked.dispose()

    def test_goes_with_the_last_connection_and_comes_with_the_next(
        self, db: Database, path: Path
    ) -> None:
        db.engine.dispose()
        assert not beside(path, "-wal").exists()

        db.transact(add("one"))

        assert names(db) == ["one"]

    def test_stays_though_many_connections_come_and_go(self, db: Database) -> None:
        threads = [Thread(target=lambda: names(db)) for _ in range(20)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

        db.transact(add("one"))

        assert names(db) == ["one"]


def test_connections_that_were_opened_read_only_do_not_stay_so(tmp_path: Path) -> None:
    """A file that may not be written to is opened for reading; later its connection is no better."""
    read_only = True
    url = sqlite_url(tmp_path)
    open_upgraded(url).dispose()
    db = open_database(url)

    def open_as_may_be(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute(f"PRAGMA query_only = {read_only}")

    event.listen(db.engine, "connect", open_as_may_be)
    probe_read(db)
    with pytest.raises(DatabaseUnavailable, match="attempt to write a readonly database"):
        probe_write(db)

    read_only = False

    probe_write(db)
    db.dispose()
