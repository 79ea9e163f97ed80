"""Idempotency keys: requests of all kinds share one namespace, also when two come at once."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from inspect import unwrap
from threading import Event

import pytest
from sqlalchemy import text

from retrier.domain.archive_operation import Act
from retrier.domain.retry_operation import RetryRequest, RetryType
from retrier.domain.selection import Selection
from retrier.errors import KeyReused
from retrier.store.archive import Few, do_at_once, retry_pending, write_down
from retrier.store.dead_messages import revive
from retrier.store.engine.database import Database
from retrier.store.engine.transaction import Transaction
from retrier.store.operation_requests import create_operation, find_repeated, freeze
from retrier.store.schema import archive_operations, retry_operations
from tests.contract.store_rows import rows
from tests.support.archiving import make_archives, request_for
from tests.support.bench import QUEUE
from tests.support.waiting import wait_until

DEADLINE = 30.0
NOBODY = "7e125000-0000-4000-8000-000000000001"
RETRY = RetryRequest(
    retry_type=RetryType.MULTIPLE_MESSAGES,
    selection=Selection(queue=QUEUE),
    originator="a retry of a test",
    requested_by="ada",
    idempotency_key="monday",
)
ARCHIVE = request_for(Act.ARCHIVE, Selection(queue=QUEUE), key="monday")
FEW = Few(unique_ids=(), selection=ARCHIVE.selection)

Ask = Callable[[Database], object]
RETRIES: list[Ask] = [
    lambda db: create_operation(db, RETRY),
    lambda db: revive(db, RETRY, NOBODY),
    lambda db: retry_pending(db, RETRY, (NOBODY,)),
]
ARCHIVES: list[Ask] = [
    lambda db: do_at_once(db, ARCHIVE, FEW),
    lambda db: write_down(db, ARCHIVE, 0),
]


def keyed(db: Database) -> tuple[int, int]:
    return len(rows(db, retry_operations)), len(rows(db, archive_operations))


@pytest.mark.parametrize("ask", ARCHIVES, ids=["at once", "written down"])
def test_the_key_of_a_retry_is_refused_for_an_archive(database: Database, ask: Ask) -> None:
    create_operation(database, RETRY)

    with pytest.raises(KeyReused, match="a retry of a test"):
        ask(database)

    assert keyed(database) == (1, 0)


@pytest.mark.parametrize("ask", RETRIES, ids=["retry", "revive", "again"])
def test_the_key_of_an_archive_is_refused_for_a_retry(database: Database, ask: Ask) -> None:
    make_archives(database).ask(ARCHIVE)

    with pytest.raises(KeyReused, match="archive of a test"):
        ask(database)

    assert keyed(database) == (0, 1)


def test_a_key_that_both_have_from_before_gives_each_its_own(database: Database) -> None:
    """Versions before this one took it twice."""
    first = create_operation(database, RETRY)
    with database.engine.begin() as conn:
        conn.execute(retry_operations.update().values(idempotency_key=None))
    asked = make_archives(database).ask(ARCHIVE).operation
    with database.engine.begin() as conn:
        conn.execute(retry_operations.update().values(idempotency_key="monday"))

    again = create_operation(database, RETRY), make_archives(database).ask(ARCHIVE)

    assert again[0].operation_id == first.operation_id
    assert again[1].operation.operation_id == asked.operation_id


class TestTwoAtOnce:
    """One has made its request and not committed it yet, when the other comes."""

    @pytest.fixture
    def pool(self) -> Iterator[ThreadPoolExecutor]:
        with ThreadPoolExecutor(2) as pool:
            yield pool

    def test_the_archive_waits_for_the_retry_and_is_refused(
        self, database: Database, pool: ThreadPoolExecutor
    ) -> None:
        def retry(tx: Transaction) -> None:
            find_repeated(tx, RETRY, RETRY.selection)
            freeze(tx, RETRY, 0)

        self._run(database, pool, retry, lambda: do_at_once(database, ARCHIVE, FEW))

        assert keyed(database) == (1, 0)

    def test_the_retry_waits_for_the_archive_and_is_refused(
        self, database: Database, pool: ThreadPoolExecutor
    ) -> None:
        def archive(tx: Transaction) -> None:
            unwrap(do_at_once)(tx, ARCHIVE, FEW)

        self._run(database, pool, archive, lambda: create_operation(database, RETRY))

        assert keyed(database) == (0, 1)

    @staticmethod
    def _run(
        database: Database,
        pool: ThreadPoolExecutor,
        first: Callable[[Transaction], None],
        second: Callable[[], object],
    ) -> None:
        made, may_commit = Event(), Event()

        def hold(tx: Transaction) -> None:
            first(tx)
            made.set()
            may_commit.wait(DEADLINE)

        holding = pool.submit(database.transact, hold)
        try:
            assert made.wait(DEADLINE)
            asking = pool.submit(second)
            # SQLite shows nobody who waits; there the order of the two does not matter.
            wait_until(
                lambda: database.is_sqlite or asking.done() or waits_for_key(database), DEADLINE
            )
        finally:
            may_commit.set()
        holding.result(DEADLINE)
        with pytest.raises(KeyReused):
            asking.result(DEADLINE)


def waits_for_key(db: Database) -> bool:
    """Say whether a session of this PostgreSQL database waits for an advisory lock."""
    query = text(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = "
        "(SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    return bool(db.read(lambda tx: tx.execute(query).scalar_one()))
