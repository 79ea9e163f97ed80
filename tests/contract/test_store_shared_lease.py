"""A chunk of an act on many keeps a takeover out on PostgreSQL, and holds up no renewal."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import select, text

from retrier.errors import LeaseLost
from retrier.store.archive import work_off
from retrier.store.archive_lists import find_archive_chunk
from retrier.store.engine.database import Database
from retrier.store.lease import Fence, Holder, acquire_lease, renew_lease
from retrier.store.schema import processor_lease
from tests.support.archiving import CHUNK, ask, state_of
from tests.support.bench import QUEUE, Bench
from tests.support.databases import empty
from tests.support.halting import DEADLINE, halted
from tests.support.waiting import wait_until

pytestmark = pytest.mark.postgres

ARCHIVED = "UPDATE failed_messages SET"
"""The statement of a chunk behind which it is halted: the lease's row is locked by then."""
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


@pytest.fixture
def bench(shared_postgres: Database) -> Bench:
    """Give a bench with more messages than a chunk."""
    empty(shared_postgres)
    made = Bench(shared_postgres)
    made.fail(2 * CHUNK)
    return made


@pytest.fixture
def other() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def take_over(db: Database) -> object:
    """Become the processor as on the host of a holder that is known to be dead."""
    holder = Holder(session_id=str(uuid4()), host="there", pid=2, process_started="now")
    return acquire_lease(db, holder, timedelta(seconds=15), lambda _holder: True)


def renewed_at(bench: Bench) -> object:
    return bench.rows(select(processor_lease.c.renewed_at))[0]["renewed_at"]


def is_any_waiting(bench: Bench) -> bool:
    return bool(bench.rows(text(WAITING))[0]["count"])


def test_a_renewal_passes_while_a_chunk_is_done(bench: Bench, slow: ThreadPoolExecutor) -> None:
    asked = ask(bench, queue=QUEUE)
    fence, before = bench.context.lease.fence, renewed_at(bench)
    chunk = find_archive_chunk(bench.db, asked, CHUNK)
    with halted(bench.db, ARCHIVED) as (reached, go_on):
        doing = slow.submit(work_off, bench.db, fence, asked, chunk)
        assert reached.wait(DEADLINE)

        renew_lease(bench.db, fence)

        assert (doing.done(), renewed_at(bench) == before) == (False, False)
        go_on.set()
        assert doing.result(DEADLINE) is not None
    assert state_of(bench, asked).done == CHUNK


def test_a_takeover_waits_until_the_chunk_is_done(
    bench: Bench, slow: ThreadPoolExecutor, other: ThreadPoolExecutor
) -> None:
    asked = ask(bench, queue=QUEUE)
    fence = bench.context.lease.fence
    chunk = find_archive_chunk(bench.db, asked, CHUNK)
    with halted(bench.db, ARCHIVED) as (reached, go_on):
        doing = slow.submit(work_off, bench.db, fence, asked, chunk)
        assert reached.wait(DEADLINE)

        taking = other.submit(take_over, bench.db)
        wait_until(lambda: is_any_waiting(bench), DEADLINE, "the takeover waits")
        # Also with a takeover in the queue a window of Forwarding is not held up.
        renew_lease(bench.db, fence)
        assert not taking.done()
        go_on.set()

        assert doing.result(DEADLINE) is not None
        assert isinstance(taking.result(DEADLINE), Fence)


def test_after_a_takeover_the_next_chunk_is_refused(bench: Bench) -> None:
    asked = ask(bench, queue=QUEUE)
    fence = bench.context.lease.fence
    chunk = find_archive_chunk(bench.db, asked, CHUNK)
    take_over(bench.db)

    with pytest.raises(LeaseLost):
        work_off(bench.db, fence, asked, chunk)

    assert set(bench.statuses().values()) == {"unresolved"}
