"""A database copied into another one: both directions, broken off, resumed, refused."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest
from sqlalchemy import Sequence, Table, Text, cast, create_engine, insert, make_url, select, update
from sqlalchemy.exc import OperationalError

from retrier.errors import ConfigurationError, CopyRefused
from retrier.store.copying import (
    CopiedDatabase,
    CopyStep,
    Most,
    copy_whole,
    list_tables,
    measure,
    read_pages,
)
from retrier.store.engine.database import Database, bind
from retrier.store.engine.sql_dialect import NumberSource
from retrier.store.engine.sqlite_dialect import SqliteFile
from retrier.store.schema import (
    causes,
    counters,
    event_log,
    failed_messages,
    installation,
    message_counts,
    message_words,
    metadata,
    processing_attempts,
    word_progress,
)
from retrier.store.upgrade import find_revision, upgrade_schema
from retrier.store.verification import verify_store
from tests.contract.conftest import OpenKind, open_copy
from tests.contract.store_shape import shape_of
from tests.support.bench import Bench
from tests.support.databases import open_database, sqlite_url, temporary_postgres
from tests.support.factories import FAILED_AT, failure
from tests.support.lived_in import ID, live_in

SMALL = Most(rows=3, bytes=10_000)


@pytest.fixture(scope="module")
def lived_in_sqlite(upgraded_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give an SQLite file that was worked with, to be copied."""
    file = tmp_path_factory.mktemp("lived_in") / "lived_in.db"
    copyfile(upgraded_sqlite, file)
    _live_in(f"sqlite:///{file}")
    return file


@pytest.fixture(scope="module")
def lived_in_postgres(postgres_url: str, upgraded_postgres: str) -> Iterator[str]:
    """Give the name of a PostgreSQL database that was worked with, to be copied."""
    with temporary_postgres(postgres_url, upgraded_postgres) as url:
        _live_in(url)
        yield str(make_url(url).database)


def _live_in(url: str) -> None:
    db = open_database(url)
    live_in(db)
    db.dispose()


@contextmanager
def opening_lived_in(request: pytest.FixtureRequest, folder: Path) -> Iterator[OpenKind]:
    """Give a function that opens a new database of a kind that was worked with."""
    with ExitStack() as stack:

        def open_one(kind: str) -> Database:
            return open_copy(request, stack, folder, kind, "lived_in_{}")

        yield open_one


@pytest.fixture
def open_lived_in(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenKind]:
    """Give such a function."""
    with opening_lived_in(request, tmp_path) as open_one:
        yield open_one


INTO_ANOTHER_KIND = [
    pytest.param(("sqlite", "postgres"), marks=pytest.mark.postgres, id="sqlite-to-postgres"),
    pytest.param(("postgres", "sqlite"), marks=pytest.mark.postgres, id="postgres-to-sqlite"),
]
INTO_THE_SAME_KIND = [
    pytest.param(("sqlite", "sqlite"), id="sqlite-to-sqlite"),
    pytest.param(("postgres", "postgres"), marks=pytest.mark.postgres, id="postgres-to-postgres"),
]


@pytest.fixture(params=INTO_ANOTHER_KIND)
def pair(
    request: pytest.FixtureRequest, open_kind: OpenKind, open_lived_in: OpenKind
) -> tuple[Database, Database]:
    """Give a database that was worked with, and one without tables."""
    source, target = request.param
    return open_lived_in(source), open_kind(target)


EVERY_PAIR = [
    *INTO_ANOTHER_KIND,
    *(
        pytest.param(*each.values, marks=[*each.marks, pytest.mark.kills], id=each.id)
        for each in INTO_THE_SAME_KIND
    ),
]
every_pair = pytest.mark.parametrize("pair", EVERY_PAIR, indirect=True)


def say_nothing(_step: CopyStep) -> None:
    """Let nobody know."""


def copied(source: Database, target: Database) -> CopiedDatabase:
    return copy_whole(source, target, say_nothing, SMALL)


class BrokenOff(Exception):
    """The copy is killed here."""


def break_off(source: Database, target: Database, at: int) -> None:
    """Kill the copy at the step of this number; the transaction of the source is rolled back."""
    left = at

    def die(_step: CopyStep) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise BrokenOff

    with pytest.raises(BrokenOff):
        copy_whole(source, target, die, SMALL)


def rows_of(db: Database) -> dict[str, list[Any]]:
    """Return all rows as Python sees them, in the order of their keys."""
    with db.engine.connect() as conn:
        return {
            table.name: sorted(map(tuple, conn.execute(select(table))), key=repr)
            for table in list_tables()
        }


def numbers_of(db: Database) -> dict[str, int]:
    numbered = [table for table in list_tables() if table.autoincrement_column is not None]
    return db.read(
        lambda tx: {
            **{each: tx.sql.last_number(tx.conn, each) for each in NumberSource},
            **{table.name: tx.sql.last_key(tx.conn, table) for table in numbered},
        }
    )


@dataclass(frozen=True, slots=True)
class Finished:
    """A copy that is made once for all tests that only look at it."""

    source: Database
    target: Database
    result: CopiedDatabase
    moment: datetime


@pytest.fixture(scope="module", params=EVERY_PAIR)
def finished(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Finished]:
    """Give one, of messages that were changed at a microsecond."""
    kind, into = request.param
    folder = tmp_path_factory.mktemp("finished")
    with opening_lived_in(request, folder) as open_one, ExitStack() as stack:
        source = open_one(kind)
        url = sqlite_url(folder)
        if into == "postgres":
            url = stack.enter_context(temporary_postgres(request.getfixturevalue("postgres_url")))
        target = open_database(url)
        stack.callback(target.dispose)
        moment = FAILED_AT.replace(microsecond=1)
        with source.engine.begin() as conn:
            conn.execute(update(failed_messages).values(last_modified=moment))
        yield Finished(source, target, copied(source, target), moment)


class TestACopy:
    def test_has_every_row_and_every_value(self, finished: Finished) -> None:
        rows = rows_of(finished.source)

        assert rows_of(finished.target) == rows
        assert {each.table: each.rows for each in finished.result.tables} == {
            name: len(found) for name, found in rows.items()
        }
        assert find_revision(finished.target).is_current

    def test_keeps_the_microseconds_of_a_time(self, finished: Finished) -> None:
        with finished.target.engine.connect() as conn:
            found = set(conn.execute(select(failed_messages.c.last_modified)).scalars())

        assert found == {finished.moment}

    @every_pair
    def test_goes_on_with_the_numbers_of_the_source(self, pair: tuple[Database, Database]) -> None:
        source, target = pair
        with source.engine.begin() as conn:  # the highest key was given out, and its row is gone
            cause = conn.execute(insert(causes).values(a_cause())).inserted_primary_key
            assert cause is not None
            conn.execute(causes.delete().where(causes.c.cause_id == cause[0]))

        copied(source, target)

        assert numbers_of(target) == numbers_of(source)
        with target.engine.begin() as conn:
            after = conn.execute(insert(causes).values(a_cause())).inserted_primary_key
        assert after is not None
        assert after[0] > cause[0]

    def test_adds_up_and_can_be_worked_with(self, pair: tuple[Database, Database]) -> None:
        source, target = pair
        result = copied(source, target)

        bench = Bench(target)
        bench.fail(3)
        bench.ask_all()
        bench.work()

        before = {each.rule for each in verify_store(source).rules if each.broken}
        after = {each.rule for each in verify_store(target).rules if each.broken}
        assert {each.rule for each in result.broken} == before
        assert after <= before

    @pytest.mark.parametrize("pair", INTO_THE_SAME_KIND, indirect=True)
    def test_is_the_schema_of_an_upgrade(self, pair: tuple[Database, Database]) -> None:
        source, target = pair

        copied(source, target)

        assert shape_of(target) == shape_of(source)

    def test_comes_back_as_it_was(self, finished: Finished, open_kind: OpenKind) -> None:
        source, target = finished.source, finished.target
        back = open_kind("sqlite" if source.is_sqlite else "postgres")

        copied(target, back)

        assert rows_of(back) == rows_of(source)
        assert numbers_of(back) == numbers_of(source)
        sums = [
            {table.name: db.read(bind(measure, table)).sum for table in list_tables()}
            for db in (source, target, back)
        ]
        assert sums[0] == sums[1] == sums[2]

    def test_keeps_apart_what_is_null_and_what_is_null_in_json(self, finished: Finished) -> None:
        documents = [
            db.read(
                lambda tx: (
                    tx.execute(
                        select(cast(event_log.c.details, Text)).order_by(event_log.c.event_id)
                    )
                    .scalars()
                    .all()
                )
            )
            for db in (finished.source, finished.target)
        ]
        assert {None, "null"} <= set(documents[0])
        assert [each in {None, "null"} and each for each in documents[0]] == [
            each in {None, "null"} and each for each in documents[1]
        ]


def a_cause() -> dict[str, object]:
    return {
        "fingerprint": "ab" * 16,
        "queue": "q",
        "destination": "q",
        "created_at": FAILED_AT,
    }


class TestACopyThatIsBrokenOff:
    def test_cannot_be_used(self, pair: tuple[Database, Database]) -> None:
        source, target = pair

        for at in (1, 15, 40):
            break_off(source, target, at)

            with pytest.raises(ConfigurationError, match="unfinished copy of another database"):
                find_revision(target)
            with pytest.raises(ConfigurationError, match="run the same `retrier db copy` again"):
                upgrade_schema(target)

    @every_pair
    def test_goes_on_behind_what_it_had(self, pair: tuple[Database, Database]) -> None:
        source, target = pair
        for at in (10, 12, 14):
            break_off(source, target, at)

        result = copied(source, target)

        assert result.resumed > 0
        assert not result.began_anew
        assert rows_of(target) == rows_of(source)

    def test_begins_anew_if_the_source_has_worked_since(
        self, pair: tuple[Database, Database]
    ) -> None:
        source, target = pair
        break_off(source, target, 40)
        with source.engine.begin() as conn:
            conn.execute(update(causes).values(exception_message="another one"))

        result = copied(source, target)

        assert result.began_anew
        assert result.resumed == 0
        assert rows_of(target) == rows_of(source)

    def test_is_refused_to_another_source(
        self, pair: tuple[Database, Database], open_lived_in: OpenKind
    ) -> None:
        source, target = pair
        break_off(source, target, 20)
        other = open_lived_in("sqlite")
        with other.engine.begin() as conn:
            conn.execute(update(installation).values(installation_id=ID.format(9)))
        before = rows_of(target)

        with pytest.raises(CopyRefused, match="unfinished copy of another database"):
            copied(other, target)

        assert rows_of(target) == before

    def test_is_found_out_if_its_rows_were_changed(self, pair: tuple[Database, Database]) -> None:
        source, target = pair
        break_off(source, target, 60)
        with target.engine.begin() as conn:
            conn.execute(update(causes).values(exception_message="another one"))

        with pytest.raises(CopyRefused, match="not a true copy: causes"):
            copied(source, target)

        with pytest.raises(ConfigurationError):
            find_revision(target)


class TestATarget:
    def test_may_have_tables_without_rows(self, pair: tuple[Database, Database]) -> None:
        source, target = pair
        upgrade_schema(target)

        copied(source, target)

        assert rows_of(target) == rows_of(source)

    def test_with_rows_is_refused_and_stays_as_it_is(self, pair: tuple[Database, Database]) -> None:
        source, target = pair
        upgrade_schema(target)
        Bench(target).fail()
        before = rows_of(target)

        with pytest.raises(CopyRefused, match="is not empty, and nothing was changed there"):
            copied(source, target)

        assert rows_of(target) == before
        assert find_revision(target).is_current

    def test_that_is_finished_is_refused(self, finished: Finished) -> None:
        with pytest.raises(CopyRefused, match="finished copy of the same installation already"):
            copied(finished.source, finished.target)

        assert find_revision(finished.target).is_current

    def test_with_a_table_of_the_same_name_is_refused(
        self, pair: tuple[Database, Database]
    ) -> None:
        source, target = pair
        with target.engine.begin() as conn:
            conn.exec_driver_sql("CREATE TABLE causes (theirs integer)")

        with pytest.raises(CopyRefused, match="is not empty"):
            copied(source, target)


def test_nobody_writes_into_the_source_meanwhile(pair: tuple[Database, Database]) -> None:
    source, target = pair
    other = create_engine(
        source.engine.url,
        connect_args={"timeout": 0.1} if source.is_sqlite else {"options": "-c lock_timeout=100"},
    )
    refusals: list[str] = []

    def write(step: CopyStep) -> None:
        if step.table == "causes" and not refusals:
            with pytest.raises(OperationalError) as refused, other.begin() as conn:
                conn.execute(update(causes).values(queue="another"))
            refusals.append(str(refused.value.orig))

    copy_whole(source, target, write, SMALL)
    other.dispose()

    assert "lock" in refusals[0]


class TestPages:
    def test_hold_as_many_bytes_as_are_allowed(self, database: Database) -> None:
        bench = Bench(database)
        bench.receive(*(failure(body=bytes([each]) * 4000) for each in range(6)))

        def sizes(tx: Any) -> list[int]:
            pages = read_pages(tx, processing_attempts, most=Most(rows=100, bytes=10_000))
            return [len(page.rows) for page in pages]

        found = database.read(sizes)

        assert sum(found) == 6
        assert max(found) == 2

    def test_hold_a_row_that_is_too_large_alone(self, database: Database) -> None:
        Bench(database).receive(*(failure(body=bytes([each]) * 4000) for each in range(3)))

        def sizes(tx: Any) -> list[int]:
            pages = read_pages(tx, processing_attempts, most=Most(rows=100, bytes=10))
            return [len(page.rows) for page in pages]

        assert database.read(sizes) == [1, 1, 1]


class TestTheTables:
    def test_are_all_of_the_schema(self) -> None:
        made_anew = {counters.name, message_counts.name, message_words.name, word_progress.name}

        assert {table.name for table in list_tables()} == set(metadata.tables) - made_anew

    def test_have_keys_by_which_they_are_read(self) -> None:
        assert [table.name for table in list_tables() if not table.primary_key.columns] == []

    def test_come_behind_those_that_they_refer_to(self) -> None:
        names = [table.name for table in list_tables()]

        def parents(table: Table) -> set[str]:
            return {key.column.table.name for key in table.foreign_keys}

        early = [
            t.name for t in list_tables() if not parents(t) <= set(names[: names.index(t.name)])
        ]
        assert early == []

    def test_take_their_numbers_from_counters_that_are_copied(self) -> None:
        sequences: dict[str, Sequence] = metadata._sequences  # noqa: SLF001 - no other way to list them

        assert set(sequences) == set(NumberSource)


HOLD_OPEN = """
import sqlite3, sys
conn = sqlite3.connect(sys.argv[1])
conn.execute("SELECT count(*) FROM causes").fetchall()
print("open", flush=True)
sys.stdin.read()
"""


def test_a_file_that_another_process_has_open_is_found(open_kind: OpenKind) -> None:
    db = open_kind("sqlite")
    upgrade_schema(db)
    db.dispose()
    path = db.place
    assert not SqliteFile(path).is_open_elsewhere()

    with subprocess.Popen(
        [sys.executable, "-c", HOLD_OPEN, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        assert SqliteFile(path).is_open_elsewhere()
        other.communicate("")

    assert not SqliteFile(path).is_open_elsewhere()
