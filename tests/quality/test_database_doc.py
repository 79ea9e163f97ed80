"""The page on the database: every table, column and state, and queries that run on both databases."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from sqlalchemy import CheckConstraint, Row, Table, text

from retrier.domain.archive_operation import Act
from retrier.domain.failed_message import FailedImport, OwnCopy
from retrier.ingestion.parsing import QueueMapping
from retrier.store.engine.database import Database
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import VIEWS, metadata
from tests.support.bench import QUEUE, Bench, Killed
from tests.support.factories import (
    ERROR_QUEUE,
    FAILED_AT,
    confirmation,
    failed_import,
    failure,
    unique_id,
)
from tests.support.imports import make_imports
from tests.support.old import age, settle, sweep
from tests.support.project import ROOT

PAGE = (ROOT / "docs" / "database.md").read_text()
SECTION = re.compile(r"^## `(\w+)`$(.*?)(?=^## )", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"^\| (.+?) \|.*\n\|[-|]+\n((?:\|.*\n)+)", re.MULTILINE)
FIRST_CELL = re.compile(r"^\| `(\w+)` \| ([^|]+) \|$", re.MULTILINE)
QUERY = re.compile(r"^```sql\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LISTED = re.compile(r"(\w+) IN \(('\w+'(?:, '\w+')*)\)")

SECTIONS = dict(SECTION.findall(PAGE))
QUERIES = QUERY.findall(PAGE)
TABLES = list(metadata.tables.values())


def rows_under(section: str, head: str) -> dict[str, str]:
    """Return what the table under this head says, by the name in the first cell."""
    found = [body for first, body in TABLE.findall(section) if first == head]
    return {name: words for body in found for name, words in FIRST_CELL.findall(body)}


def states_of(table: Table) -> Mapping[str, set[str]]:
    """Return the values that check constraints allow, by column."""
    checks = [each for each in table.constraints if isinstance(each, CheckConstraint)]
    listed = [LISTED.fullmatch(str(check.sqltext)) for check in checks]
    return {match[1]: set(re.findall(r"'(\w+)'", match[2])) for match in listed if match}


STATES = {
    (table.name, column): values
    for table in TABLES
    for column, values in sorted(states_of(table).items())
}


class TestThePage:
    def test_has_a_section_for_every_table_and_for_nothing_else(self) -> None:
        assert set(SECTIONS) == set(metadata.tables)

    def test_lists_every_table_and_nothing_else(self) -> None:
        assert set(rows_under(PAGE, "table")) == set(metadata.tables)

    def test_names_every_column_in_order_and_no_other(self) -> None:
        named = {table.name: list(rows_under(SECTIONS[table.name], "column")) for table in TABLES}

        assert named == {table.name: [column.name for column in table.columns] for table in TABLES}

    def test_says_something_of_every_column(self) -> None:
        sentences = [
            (table.name, name, words)
            for table in TABLES
            for name, words in rows_under(SECTIONS[table.name], "column").items()
        ]

        assert [each for each in sentences if not each[-1].endswith(".")] == []

    def test_knows_every_state_and_no_other(self) -> None:
        told = {
            (table, column): set(rows_under(SECTIONS[table], f"`{column}`"))
            for table, column in STATES
        }

        assert told == STATES

    def test_explains_the_states_of_no_column_that_has_none(self) -> None:
        explained = {
            (name, head.strip("`"))
            for name, section in SECTIONS.items()
            for head, _ in TABLE.findall(section)
            if head.startswith("`")
        }

        assert explained == {*STATES} | {("ledger", "entry")}

    def test_lists_every_view_and_nothing_else(self) -> None:
        assert set(rows_under(PAGE, "view")) == set(VIEWS)

    def test_has_ten_queries(self) -> None:
        assert len(QUERIES) == 10


@pytest.fixture
def lived_in(database: Database) -> Database:
    """Give a database in which everything has happened that a query asks for."""
    bench = Bench(database)
    settle(database, Act.ARCHIVE, bench.fail())
    age(database, 11)
    sweep(bench)
    resolved, pending, again = (failure(queue=QUEUE) for _ in range(3))
    bench.receive(resolved, pending, again)
    bench.ask_all()
    bench.work()
    bench.receive(
        confirmation(unique_id(resolved)),
        failure(queue=QUEUE, message_id=again.message_id, body=again.body),
        OwnCopy(staging_id="s", unique_message_id=None, error_queue="error"),
        unreadable(),
    )
    bench.ask(["no such id", unique_id(resolved)])
    bench.work()
    bench.ask([unique_id(again)])
    bench.receive(failure(message_id="left", queue=QUEUE), failure(message_id="left", body=b"2"))
    bench.receive(failure(message_id="left", queue=QUEUE, body=b"2"))
    leave_in_doubt(bench)
    return database


def unreadable() -> FailedImport:
    return FailedImport(
        error_queue="error",
        reason="its properties cannot be read",
        raw=b"\xff",
        body=b"",
        fingerprint="f0" * 16,
        received_at=FAILED_AT,
    )


def leave_in_doubt(bench: Bench) -> None:
    """Let the process die between sending and recording."""
    bench.kill_at("forwarding.published")
    with pytest.raises(Killed):
        bench.work()


def answers(query: str, tx: Transaction) -> Sequence[Row[Any]]:
    return tx.conn.exec_driver_sql(query).all()


def ledger_entries(db: Database) -> set[str]:
    query = metadata.tables["ledger"].select()
    return {row.entry for row in db.read(lambda tx: tx.execute(query).all())}


def test_the_page_knows_every_entry_of_the_ledger_and_no_other(lived_in: Database) -> None:
    Bench(lived_in).receive(replace(unreadable(), redelivered=True), failed_import())
    mapping = QueueMapping(queue=ERROR_QUEUE, destination=QUEUE)
    make_imports(lived_in, mappings={ERROR_QUEUE: mapping}).read_all_again(None, "ada")

    assert set(rows_under(SECTIONS["ledger"], "`entry`")) == ledger_entries(lived_in)


def test_every_query_runs_and_shows_what_happened(lived_in: Database) -> None:
    shown = [lived_in.read(partial(answers, query)) for query in QUERIES]

    assert [query for query, rows in zip(QUERIES, shown, strict=True) if not rows] == []


def columns_of(view: str, tx: Transaction) -> list[str]:
    query = text(f"SELECT * FROM {view} LIMIT 1")  # noqa: S608 - a name of ours
    return list(tx.execute(query).keys())


def test_the_page_names_every_column_of_a_view(database: Database) -> None:
    columns = {view: database.read(partial(columns_of, view)) for view in VIEWS}

    words = PAGE[PAGE.index("## Views") : PAGE.index("## Queries")]
    same = {column.name for column in metadata.tables["failed_message_retries"].columns}
    told = set(re.findall(r"`(\w+)`", words)) | same
    assert [(view, name) for view in VIEWS for name in columns[view] if name not in told] == []


def test_the_query_of_the_ledger_finds_it_in_order(lived_in: Database) -> None:
    (query,) = [each for each in QUERIES if "accounted_for" in each]

    balance = lived_in.read(partial(answers, query))

    assert {row.what: row.counted - row.accounted_for for row in balance} == {
        "deliveries": 0,
        "messages": 0,
    }
