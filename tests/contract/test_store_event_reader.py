"""The event log read forward: in the order of ids, nothing twice, and nothing left out."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from sqlalchemy import Connection

from retrier.store.engine.database import Database
from retrier.store.engine.transaction import Transaction
from retrier.store.event_log import Entry, EventReader, append


class Writer:
    """A transaction that writes events, and stays open until it is told how to end."""

    def __init__(self, db: Database, stack: ExitStack) -> None:
        self._db = db
        self._conn: Connection = stack.enter_context(db.engine.connect())

    def write(self, *texts: str) -> "Writer":
        append(
            Transaction(self._conn, self._db.sql), [Entry(kind="t", text=each) for each in texts]
        )
        return self

    def commit(self) -> None:
        self._conn.commit()

    def roll_back(self) -> None:
        self._conn.rollback()


class Log:
    """An event log, a reader at its end, and whoever writes to it."""

    def __init__(self, db: Database, stack: ExitStack) -> None:
        self._db = db
        self._stack = stack
        self.reader = EventReader(db, at_once=5)
        # PostgreSQL does not count anew in an empty table: the first id would seem to be missing.
        self.commit("what was there before")
        self.begin()

    def begin(self) -> None:
        self.reader.begin()
        self.reader.settle()

    def write(self, *texts: str) -> Writer:
        return Writer(self._db, self._stack).write(*texts)

    def commit(self, *texts: str) -> None:
        self.write(*texts).commit()

    def read(self) -> list[str]:
        return [each.text for each in self.reader.read()]


@pytest.fixture
def log(database: Database) -> Iterator[Log]:
    """Give an event log on each database."""
    with ExitStack() as stack:
        yield Log(database, stack)


on_postgres = pytest.mark.parametrize(
    "database", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
"""On SQLite there is one writer at a time: no two transactions can commit in another order."""


def test_what_is_committed_is_read_once(log: Log) -> None:
    log.commit("a", "b")

    assert (log.read(), log.read()) == (["a", "b"], [])


def test_what_was_there_before_is_not_read(log: Log) -> None:
    log.commit("before")
    log.begin()

    log.commit("after")

    assert log.read() == ["after"]


def test_more_than_one_look_can_hold_is_read_by_several(log: Log) -> None:
    log.commit(*"abcdefg")

    assert (log.read(), log.read()) == (list("abcde"), list("fg"))


def test_an_id_that_was_rolled_back_holds_nothing_up(log: Log) -> None:
    log.write("never").roll_back()
    log.commit("b")

    assert [*log.read(), *log.read()] == ["b"]


@on_postgres
def test_a_higher_id_that_is_committed_first_is_held_back(log: Log) -> None:
    lower = log.write("lower")
    log.commit("higher")

    assert log.read() == []
    lower.commit()
    assert log.read() == ["lower", "higher"]


@on_postgres
def test_what_comes_before_the_missing_id_is_not_held_back(log: Log) -> None:
    log.commit("first")
    log.write("lower")
    log.commit("higher")

    assert (log.read(), log.read()) == (["first"], [])


@on_postgres
def test_what_is_held_back_goes_on_when_the_lower_id_is_rolled_back(log: Log) -> None:
    lower = log.write("never")
    log.commit("higher")
    assert (log.read(), log.reader.is_held) == ([], True)

    lower.roll_back()

    assert (log.read(), log.reader.is_held) == (["higher"], False)


@on_postgres
def test_who_comes_later_holds_nothing_up(log: Log) -> None:
    lower = log.write("never")
    log.commit("higher")
    assert log.read() == []

    log.write("still open")
    lower.roll_back()

    assert log.read() == ["higher"]


@on_postgres
def test_several_that_commit_in_any_order_are_read_in_the_order_of_ids(log: Log) -> None:
    first, second, third = (log.write(each) for each in "abc")
    read: list[str] = []
    for each in (third, first, second):
        each.commit()
        read += log.read()

    assert read == ["a", "b", "c"]


@on_postgres
def test_more_behind_a_missing_id_than_one_look_can_hold_is_read_in_order(log: Log) -> None:
    lower = log.write("never")
    log.commit(*"abcdefg")
    assert log.read() == []

    lower.roll_back()

    assert [*log.read(), *log.read(), *log.read()] == list("abcdefg")


@on_postgres
def test_the_place_to_begin_at_is_settled_when_nobody_writes_before_it(log: Log) -> None:
    lower = log.write("lower")
    log.commit("higher")

    log.reader.begin()

    assert not log.reader.settle()
    lower.commit()
    assert log.reader.settle()
