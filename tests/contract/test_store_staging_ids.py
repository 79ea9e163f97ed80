"""Staging ids: written under the lease, kept for a while, and as long as their batch is alive."""

from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import event, update

from retrier.clock import SystemClock
from retrier.errors import LeaseLost
from retrier.store.batches import find_staging_ids
from retrier.store.schema import staging_ids
from retrier.store.upkeep import record_staging_ids, sweep_staging_ids
from tests.contract.store_retries import STAGED, bring_to
from tests.contract.store_rows import rows
from tests.support.bench import Bench
from tests.support.factories import FAILED_AT

DAY = timedelta(days=1)
ONE = "57a61000-0000-4000-8000-000000000001"
OTHER = "57a61000-0000-4000-8000-000000000002"
UNKNOWN = "57a61000-0000-4000-8000-000000000003"


@pytest.fixture
def bench(database):
    return Bench(database)


def make(bench, *ids, age=timedelta(0)):
    """Write ids down as if so long ago."""
    record_staging_ids(bench.db, bench.context.lease.fence, ids)
    with bench.db.engine.begin() as conn:
        at = bench.db.sql.now(conn) - age
        mine = bench.db.sql.member(staging_ids.c.staging_id, ids)
        conn.execute(update(staging_ids).where(mine).values(made_at=at))


def known(db, *ids):
    return db.read(lambda tx: find_staging_ids(tx, ids))


def test_an_id_is_known_once_it_is_written(bench):
    make(bench, ONE)

    assert known(bench.db, ONE, UNKNOWN) == {ONE}


def test_an_id_may_be_written_again_and_is_young_again(bench):
    make(bench, ONE, age=100 * DAY)

    record_staging_ids(bench.db, bench.context.lease.fence, [ONE, OTHER])

    assert sweep_staging_ids(bench.db, older_than=90 * DAY) == 0
    assert known(bench.db, ONE, OTHER) == {ONE, OTHER}


def test_a_process_that_is_the_processor_no_more_writes_none(bench):
    fence = bench.context.lease.fence
    bench.lose_lease()

    with pytest.raises(LeaseLost):
        record_staging_ids(bench.db, fence, [ONE])

    assert rows(bench.db, staging_ids) == []


class TestASweep:
    def test_deletes_what_is_older_and_leaves_the_rest(self, bench):
        make(bench, ONE, age=91 * DAY)
        make(bench, OTHER, age=89 * DAY)

        assert sweep_staging_ids(bench.db, older_than=90 * DAY) == 1
        assert known(bench.db, ONE, OTHER) == {OTHER}

    def test_leaves_what_was_not_old_at_the_look_before(self, bench):
        make(bench, ONE, age=91 * DAY)

        as_of = SystemClock().now() - 2 * DAY

        assert sweep_staging_ids(bench.db, older_than=90 * DAY, as_of=as_of) == 0

    def test_leaves_the_id_of_a_batch_in_forwarding(self, bench):
        bring_to(bench, STAGED)
        (batch,) = bench.batches()
        with bench.db.engine.begin() as conn:
            conn.execute(update(staging_ids).values(made_at=FAILED_AT - 1000 * DAY))

        sweep_staging_ids(bench.db, older_than=90 * DAY)

        assert known(bench.db, batch["staging_id"])

    def test_deletes_any_number_a_thousand_at_a_time(self, bench):
        make(bench, *(str(uuid4()) for _ in range(2500)), age=91 * DAY)
        commits = []

        def listen(_conn):
            commits.append(1)

        event.listen(bench.db.engine, "commit", listen)
        swept = sweep_staging_ids(bench.db, older_than=90 * DAY)
        event.remove(bench.db.engine, "commit", listen)

        assert (swept, len(commits)) == (2500, 3)
