"""Counts of messages that PostgreSQL keeps: right after every statement, whoever made it."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, delete, func, insert, select, text, update

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.selection import Selection
from retrier.store.engine.database import Database, reading
from retrier.store.engine.transaction import Transaction
from retrier.store.message_counts import count_statuses, count_wrong, find_total, fold
from retrier.store.message_lists import Order, PageRequest, list_messages
from retrier.store.recording import record_received
from retrier.store.schema import COUNT_TRIGGERS, failed_messages, message_counts
from retrier.store.selections import count_matches
from retrier.store.upgrade import upgrade_schema
from retrier.store.verification import verify_store
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from tests.contract.test_store_migrations import take_2010_back
from tests.support.bench import Bench
from tests.support.databases import empty
from tests.support.factories import failure
from tests.support.statements import statements

UNRESOLVED = frozenset({FailedMessageStatus.UNRESOLVED})
ARCHIVED = frozenset({FailedMessageStatus.ARCHIVED})
FIRST = select(func.min(failed_messages.c.number)).scalar_subquery()
RULE = "the counts that are kept of messages are those of the messages"

total = reading(find_total)
wrong = reading(count_wrong)


@reading
def statuses(tx: Transaction) -> dict[FailedMessageStatus, int]:
    return dict(count_statuses(tx, list(FailedMessageStatus)))


def fail(db: Database, *queues: str) -> None:
    record_received(db, [failure(queue=queue) for queue in queues], instance="i")


def change(db: Database, *made: Any) -> None:
    with db.engine.begin() as conn:
        for statement in made:
            conn.execute(statement)


def kept_rows(db: Database) -> int:
    with db.engine.connect() as conn:
        return conn.execute(select(func.count()).select_from(message_counts)).scalar_one()


def triggers(conn: Connection) -> list[tuple[str, str]]:
    query = (
        "SELECT pg_get_triggerdef(t.oid), p.prosrc FROM pg_trigger t JOIN pg_proc p ON p.oid = "
        "t.tgfoid WHERE tgrelid = 'failed_messages'::regclass AND NOT tgisinternal ORDER BY 1"
    )
    return [(row[0], row[1]) for row in conn.execute(text(query))]


@pytest.fixture
def kept(database: Database) -> Database:
    """Give a database that keeps counts."""
    if database.is_sqlite:
        pytest.skip("SQLite counts")
    return database


@pytest.mark.parametrize(
    "wanted",
    [
        Selection(),
        Selection(statuses=UNRESOLVED),
        Selection(statuses=ARCHIVED),
        Selection(queue="orders"),
        Selection(statuses=UNRESOLVED, queue="orders", endpoint="Sales"),
        Selection(statuses=UNRESOLVED, exception_type="Shop.OutOfStock"),
        Selection(queue="unheard of"),
    ],
)
def test_a_total_that_is_kept_is_the_one_that_is_counted(kept: Database, wanted: Selection) -> None:
    fail(kept, "orders", "orders", "stock")
    change(
        kept,
        update(failed_messages).where(failed_messages.c.number == FIRST).values(status="archived"),
    )

    assert total(kept, wanted) == count_matches(kept, wanted)


def test_a_total_by_another_condition_is_counted(kept: Database) -> None:
    assert total(kept, Selection(attempts_at_least=2)) is None


def test_on_sqlite_all_is_counted(database: Database) -> None:
    fail(database, "orders")

    assert total(database, Selection()) == (None if database.is_sqlite else 1)
    assert statuses(database) == {FailedMessageStatus.UNRESOLVED: 1}


@pytest.mark.parametrize(
    "statement",
    [
        update(failed_messages).values(status="archived"),
        update(failed_messages).values(disposition="dead", disposition_reason="no"),
        update(failed_messages).values(attempts=7),
        update(failed_messages).values(
            cause_id=select(func.max(failed_messages.c.cause_id)).scalar_subquery()
        ),
        delete(failed_messages).where(failed_messages.c.number == FIRST),
        text("TRUNCATE failed_messages"),
    ],
)
def test_counts_are_right_after_any_statement(kept: Database, statement: Any) -> None:
    fail(kept, "orders", "orders", "stock")

    change(kept, statement)

    assert wrong(kept) == 0


def test_counts_of_what_is_rolled_back_are_as_before(kept: Database) -> None:
    fail(kept, "orders")
    with kept.engine.connect() as conn:
        conn.execute(delete(failed_messages))
        conn.rollback()

    assert total(kept, Selection()) == 1


def test_counts_are_right_after_retries(kept: Database) -> None:
    bench = Bench(kept)
    bench.fail(5)
    bench.ask_all()
    bench.work()

    assert statuses(kept) == {FailedMessageStatus.RETRY_ISSUED: 5}
    assert wrong(kept) == 0


def test_a_list_by_status_counts_no_message(kept: Database) -> None:
    fail(kept, "orders", "orders")

    with statements(kept) as asked:
        page = list_messages(
            kept, Selection(statuses=UNRESOLVED), Order(), PageRequest(), AmqpPropertyCodec()
        )

    assert page.total == 2
    assert not [each for each in asked if "count(*)" in each and "FROM failed_messages" in each]


def test_folding_leaves_each_count_and_one_row_of_each_kind(kept: Database) -> None:
    for _ in range(4):
        fail(kept, "orders", "stock")
    change(
        kept,
        update(failed_messages).where(failed_messages.c.number == FIRST).values(status="archived"),
    )
    before = statuses(kept)

    folded = fold(kept, slack=0)

    assert folded > 3
    assert kept_rows(kept) == 3
    assert (statuses(kept), wrong(kept)) == (before, 0)


def test_few_rows_are_not_folded(kept: Database) -> None:
    fail(kept, "orders")

    assert fold(kept) == 0
    assert kept_rows(kept) == 1


def test_nothing_is_folded_where_nothing_is_kept(database: Database) -> None:
    assert fold(database, slack=-1) == 0


def bend(db: Database, act: Callable[[Connection], object]) -> None:
    with db.engine.begin() as conn:
        act(conn)


def test_verify_finds_a_count_that_is_wrong(kept: Database) -> None:
    fail(kept, "orders")
    row = {"cause_id": 77, "status": "archived", "disposition": "manual", "change": 1}
    bend(kept, lambda conn: conn.execute(insert(message_counts).values(row)))

    assert [each.rule for each in verify_store(kept).rules if each.broken] == [RULE]


def test_an_upgrade_makes_the_same_triggers_and_counts_what_is_there(kept: Database) -> None:
    with kept.engine.connect() as conn:
        made = triggers(conn)
    fail(kept, "orders", "stock")

    take_2010_back(kept)
    upgrade_schema(kept)

    with kept.engine.connect() as conn:
        assert triggers(conn) == made
    assert len(made) == len(COUNT_TRIGGERS)
    assert (total(kept, Selection()), wrong(kept)) == (2, 0)


def test_an_emptied_database_has_no_counts(kept: Database) -> None:
    fail(kept, "orders")

    empty(kept)

    assert total(kept, Selection()) == 0
