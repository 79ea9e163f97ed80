"""The lease on PostgreSQL: a holder that freezes inside a transaction keeps nobody out for long."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event
from uuid import uuid4

import pytest

from retrier.errors import DatabaseUnavailable, LeaseLost
from retrier.store.engine.database import Database, DatabaseOptions
from retrier.store.engine.transaction import Transaction
from retrier.store.lease import (
    Fence,
    HeldByAnother,
    Holder,
    acquire_lease,
    hold,
    renew_lease,
)
from tests.support.databases import empty
from tests.support.waiting import wait_until

pytestmark = pytest.mark.postgres

LEASE = timedelta(seconds=3)
DEADLINE = 15.0


@pytest.fixture
def db(shared_postgres: Database) -> Iterator[Database]:
    """Give the PostgreSQL database of the run, empty, as a process with a short lease opens it."""
    empty(shared_postgres)
    url = shared_postgres.engine.url.render_as_string(hide_password=False)
    db = Database(DatabaseOptions(url=url, lease=LEASE))
    yield db
    db.dispose()


def acquire(db: Database, name: str) -> Fence | HeldByAnother:
    holder = Holder(session_id=str(uuid4()), host=name, pid=1, process_started=name)
    return acquire_lease(db, holder, LEASE, lambda _holder: False)


def test_a_holder_frozen_inside_a_transaction_is_succeeded_and_commits_nothing(
    db: Database, shared_postgres: Database
) -> None:
    fence = acquire(shared_postgres, "frozen")
    assert isinstance(fence, Fence)
    held, go_on = Event(), Event()

    def freeze(tx: Transaction) -> None:
        hold(tx, fence)
        held.set()
        assert go_on.wait(DEADLINE)

    with ThreadPoolExecutor(1) as pool:
        frozen = pool.submit(db.transact, freeze)
        assert held.wait(DEADLINE)
        # Only who freezes has little time: a slow machine makes a pause within any transaction.
        wait_until(lambda: isinstance(acquire(shared_postgres, "successor"), Fence), DEADLINE)
        go_on.set()

        with pytest.raises(DatabaseUnavailable):
            frozen.result(DEADLINE)
    with pytest.raises(LeaseLost):
        renew_lease(shared_postgres, fence)
