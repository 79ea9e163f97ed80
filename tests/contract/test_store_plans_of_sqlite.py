"""SQLite's plans: it has an index for what is done again and again, and takes it, however much there is.

They come from the words of the statements and from statistics that the schema brings, not from what
is stored: so few messages show what many would cost.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from retrier.domain.classifiers import CLASSIFIERS
from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.selection import Selection
from retrier.store.archive_lists import find_first
from retrier.store.engine.database import Database
from retrier.store.groups import count_groups
from retrier.store.holds import is_any_strict
from retrier.store.upgrade import upgrade_schema
from tests.contract.test_store_migrations import take_2011_back
from tests.support.bench import QUEUE, Bench
from tests.support.databases import Borrowed, empty, open_upgraded, sqlite_url

Plan = Sequence[str]


@contextmanager
def plans(db: Database) -> Iterator[list[Plan]]:
    """Give the plans of all statements that are about messages."""
    found: dict[str, Plan] = {}

    def explain(conn: Any, _cursor: object, statement: str, given: Any, *_: object) -> None:
        if statement.startswith("SELECT") and "FROM failed_messages" in statement:
            explained = conn.connection.execute(f"EXPLAIN QUERY PLAN {statement}", given)
            found[statement] = [row[3] for row in explained.fetchall()]

    event.listen(db.engine, "before_cursor_execute", explain)
    told: list[Plan] = []
    try:
        yield told
    finally:
        event.remove(db.engine, "before_cursor_execute", explain)
        told.extend(found.values())


def reads_all_of_a_status(plan: Plan) -> bool:
    return any("ix_failed_messages_list (status=?)" in step for step in plan)


def sorts(plan: Plan) -> bool:
    return any("TEMP B-TREE" in step for step in plan)


@pytest.fixture
def bench(shared_sqlite: Database) -> Iterator[Bench]:
    empty(shared_sqlite)
    borrowed = Borrowed(shared_sqlite)
    yield Bench(borrowed)
    borrowed.give_back()


@pytest.mark.parametrize("what", [{}, {"queue": QUEUE}], ids=["all", "a queue"])
def test_a_batch_is_cut_in_the_order_of_an_index(bench: Bench, what: dict[str, Any]) -> None:
    bench.fail(3)
    with plans(bench.db) as made:
        bench.ask_all(**what)
        bench.work()

    assert made
    assert not [plan for plan in made if reads_all_of_a_status(plan) and sorts(plan)]


def test_whether_any_message_is_strict_is_asked_of_an_index(bench: Bench) -> None:
    with plans(bench.db) as made:
        bench.db.read(is_any_strict)

    assert "ix_failed_messages_strict" in str(made)


def test_groups_of_a_cause_are_found_by_the_cause_alone(bench: Bench) -> None:
    bench.fail(3)

    with plans(bench.db) as told:
        count_groups(bench.db, CLASSIFIERS[0])

    # Else each group that there is would be tried for each cause.
    (plan,) = told
    assert [step for step in plan if "(cause_id=?)" in step] != []
    assert [step for step in plan if "cause_id=? AND group_id=?" in step] == []


def test_an_archive_reads_its_chunks_in_the_order_of_a_key(bench: Bench) -> None:
    bench.fail(3)
    resolved = Selection(statuses=frozenset({FailedMessageStatus.RESOLVED}))
    with plans(bench.db) as made:
        find_first(bench.db, resolved, 2)

    assert made
    assert not any(map(sorts, made))


def test_an_upgrade_brings_what_the_plans_come_from(tmp_path: Path) -> None:
    db = open_upgraded(sqlite_url(tmp_path))
    take_2011_back(db)
    db.dispose()
    old = costly(db)

    upgrade_schema(db)
    db.dispose()

    assert old
    assert not costly(db)


def costly(db: Database) -> list[Plan]:
    """Return the plans of a retry of everything that sort all of a status."""
    bench = Bench(db)
    bench.fail(3)
    with plans(db) as made:
        bench.ask_all()
        bench.work()
    return [plan for plan in made if reads_all_of_a_status(plan) and sorts(plan)]
