"""A database that shows what belongs to some queues, whatever it is asked: on both databases."""

import pytest
from sqlalchemy import func, insert, select

from retrier.domain.retry_operation import RetryRequest, RetryType
from retrier.domain.selection import Selection
from retrier.errors import DatabaseUnavailable
from retrier.events.event import ignore
from retrier.gateway import Gateway
from retrier.store.batches import list_batches
from retrier.store.breaker_lists import list_breakers
from retrier.store.engine import narrowing
from retrier.store.engine.database import Database
from retrier.store.groups import list_queues
from retrier.store.message_lists import PageRequest
from retrier.store.schema import (
    causes,
    failed_messages,
    group_comments,
    metadata,
    processing_attempts,
    saved_views,
)
from retrier.store.streams import list_streams
from tests.contract.store_rows import record
from tests.support.factories import failure
from tests.support.imports import make_imports

OWN, OTHER = "orders.eu", "billing"


@pytest.fixture
def narrow(database: Database) -> Database:
    record(database, failure(queue=OWN), failure(queue=OTHER), failure(queue="Orders.eu"))
    return database.narrowed(("orders*",))


def count(db: Database, table: object) -> int:
    return db.read(lambda tx: int(tx.execute(select(func.count()).select_from(table)).scalar_one()))  # type: ignore[arg-type]


def test_only_messages_of_these_queues_are_there(narrow: Database) -> None:
    query = select(causes.c.queue).join_from(
        failed_messages, causes, causes.c.cause_id == failed_messages.c.cause_id
    )

    assert narrow.read(lambda tx: tx.execute(query).scalars().all()) == [OWN]
    assert count(narrow, processing_attempts) == 1


def test_the_same_holds_below_a_query_of_its_own(narrow: Database) -> None:
    chosen = select(failed_messages.c.number).cte("chosen")

    assert count(narrow, chosen) == 1


def test_every_table_can_be_asked(narrow: Database, database: Database) -> None:
    seen = {table.name: count(narrow, table) for table in metadata.sorted_tables}
    all_of_it = {table.name: count(database, table) for table in metadata.sorted_tables}

    assert {name for name, number in seen.items() if number > all_of_it[name]} == set()
    assert (seen["failed_messages"], all_of_it["failed_messages"]) == (1, 3)


TELLS_OF_NO_QUEUE = {
    *("access_tokens", "browser_sessions", "login_attempts"),
    *("counters", "ledger", "recovery", "word_progress"),
    *("error_queue_reads", "installation", "policy_sets", "processes", "processor_lease"),
    *("retry_batch_now_forwarding", "staging_ids"),
    # Each text is stored once for all messages that have it, and found through a message only.
    "message_texts",
}


def test_of_each_table_it_is_known_whether_it_tells_of_queues() -> None:
    """A new table is seen by everybody until somebody thinks of it."""
    narrowed = {name for name, _ in narrowing.find_conditions(("orders*",), is_sqlite=True)}

    assert set(metadata.tables) - narrowed == TELLS_OF_NO_QUEUE


def test_nothing_can_be_changed_through_it(narrow: Database) -> None:
    statement = insert(saved_views).values(name="x")

    with pytest.raises(DatabaseUnavailable, match="can change nothing"):
        narrow.transact(lambda tx: tx.execute(statement))


@pytest.mark.parametrize("pattern", ["x' OR '1'='1", "%", "_illing", "{s}", "[b]illing", "^", "\\"])
def test_a_pattern_is_taken_for_nothing_else(
    narrow: Database, database: Database, pattern: str
) -> None:
    assert count(database.narrowed((pattern,)), failed_messages) == 0
    assert count(narrow, failed_messages) == 1


def test_without_any_queue_there_is_nothing(database: Database) -> None:
    record(database, failure(queue=OWN))

    assert count(database.narrowed(()), failed_messages) == 0


def test_an_operation_is_there_if_it_holds_an_own_message(
    narrow: Database, database: Database
) -> None:
    gateway = Gateway(database, lambda: None, emit=ignore, imports=make_imports(database))
    ids = database.read(
        lambda tx: tx.execute(
            select(failed_messages.c.unique_message_id, causes.c.queue).join_from(
                failed_messages, causes, causes.c.cause_id == failed_messages.c.cause_id
            )
        ).all()
    )
    for key, queue in ids:
        gateway.retry(
            RetryRequest(
                retry_type=RetryType.SINGLE_MESSAGE,
                selection=Selection(ids=(key,)),
                originator=queue,
                requested_by="ada",
            )
        )

    retries = metadata.tables["retry_operations"]
    found = narrow.read(lambda tx: tx.execute(select(retries.c.originator)).scalars().all())
    log = metadata.tables["event_log"]
    told = narrow.read(lambda tx: tx.execute(select(log.c.text)).scalars().all())

    assert found == [OWN]
    assert all(OTHER not in each for each in told)
    assert told
    assert count(narrow, group_comments) == 0


def test_every_list_can_be_read_through_it(narrow: Database) -> None:
    """A view has no key: what groups by one of a table has to name all columns."""
    assert list(list_batches(narrow)) == []
    assert list(list_breakers(narrow)[0]) == []
    assert list_queues(narrow, PageRequest(size=10)).total == 1
    assert list_streams(narrow, PageRequest(size=10), None, only_held=False).total == 0
