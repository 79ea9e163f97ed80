"""Invariants are constraints: what must never be is refused by the database itself."""

import pytest
from sqlalchemy import Table, insert, update
from sqlalchemy.exc import IntegrityError

from retrier.domain.failed_message import RetryEnd
from retrier.store.schema import (
    causes,
    ended_retries,
    failed_message_retries,
    failed_messages,
    installation,
    processing_attempts,
    processor_lease,
    retry_batch_now_forwarding,
    retry_batches,
    retry_operations,
)
from tests.contract.store_retries import CLAIMED, SENT, STAGED, bring_to
from tests.contract.store_rows import record, rows
from tests.support.bench import Bench
from tests.support.factories import FAILED_AT, failure

NOBODY = "00000000-0000-4000-8000-000000000000"
NONE = 1_000
"""A number that nothing has."""


@pytest.fixture
def bench(database):
    return Bench(database)


def refused(db, table: Table, **values) -> bool:
    """Say whether the database refuses these values in every row of a table."""
    return refuses(db, update(table).values(**values))


def refuses(db, statement) -> bool:
    try:
        with db.engine.begin() as conn:
            assert conn.execute(statement).rowcount
    except IntegrityError:
        return True
    return False


class TestThePointer:
    def test_names_one_batch_at_most(self, bench):
        bring_to(bench, STAGED)
        (pointer,) = rows(bench.db, retry_batch_now_forwarding)

        assert refuses(bench.db, insert(retry_batch_now_forwarding).values(pointer | {"id": 2}))

    def test_is_not_set_twice(self, bench):
        bring_to(bench, STAGED)
        (pointer,) = rows(bench.db, retry_batch_now_forwarding)

        assert refuses(bench.db, insert(retry_batch_now_forwarding).values(pointer))

    def test_names_a_batch_that_exists(self, bench):
        bring_to(bench, STAGED)

        assert refused(bench.db, retry_batch_now_forwarding, batch_id=NOBODY)

    def test_keeps_its_batch_from_being_deleted(self, bench):
        bring_to(bench, STAGED)

        assert refuses(bench.db, retry_batches.delete())


class TestABatch:
    @pytest.mark.parametrize(
        "values",
        [
            {"staging_id": NOBODY},
            {"message_count": 1},
            {"staging_id": NOBODY, "message_count": 1},
            {"status": "forwarding"},
            {"status": "forwarding", "staging_id": NOBODY},
            {"status": "forwarding", "message_count": 1},
            {"status": "done"},
            {"initial_size": 1001},
        ],
        ids=str,
    )
    def test_in_staging_takes_no(self, bench, values):
        bring_to(bench, CLAIMED)

        assert refused(bench.db, retry_batches, **values)

    @pytest.mark.parametrize("name", ["staging_id", "message_count"])
    def test_in_forwarding_keeps_its(self, bench, name):
        bring_to(bench, STAGED)

        assert refused(bench.db, retry_batches, **{name: None})

    def test_is_the_only_one_of_its_operation(self, bench):
        bring_to(bench, CLAIMED)
        (batch,) = rows(bench.db, retry_batches)

        assert refuses(bench.db, insert(retry_batches).values(batch | {"batch_id": NOBODY}))

    def test_may_hold_1000(self, bench):
        bring_to(bench, CLAIMED)

        assert not refused(bench.db, retry_batches, initial_size=1000)


class TestAMessage:
    @pytest.mark.parametrize(
        "values",
        [
            {"status": "resolved"},
            {"resolution": "by_hand"},
            {"status": "archived", "resolution": "by_hand"},
            {"status": "resolved", "resolution": "by_magic"},
            {"status": "done"},
            {"disposition": "held"},
            {"disposition": "scheduled"},
            {"disposition": "dead", "retry_at": FAILED_AT},
            {"retry_at": FAILED_AT},
            {"attempts": 0},
            {"failure_count": -1},
            {"cause_id": NONE},
            {"archive_operation_id": NOBODY},
            {"released": True},
            {"stream_rule": "strict"},
            {"stream_rule": "lax", "stream_id": "customer 7"},
        ],
        ids=str,
    )
    def test_that_is_unresolved_takes_no(self, database, values):
        record(database, failure())

        assert refused(database, failed_messages, **values)

    @pytest.mark.parametrize("resolution", ["confirmed", "presumed", "by_hand", "edited"])
    def test_is_resolved_with_the_evidence(self, database, resolution):
        record(database, failure())

        assert not refused(database, failed_messages, status="resolved", resolution=resolution)

    @pytest.mark.parametrize(
        "values",
        [
            {"disposition": "scheduled", "retry_at": FAILED_AT},
            {"disposition": "dead"},
            {"stream_id": "customer 7", "stream_rule": "strict"},
            {"stream_id": "customer 7", "stream_rule": "release", "released": True},
            {"status": "archived", "archive_operation_id": NOBODY},
        ],
        ids=str,
    )
    def test_that_is_unresolved_takes(self, database, values):
        record(database, failure())

        assert not refused(database, failed_messages, **values)

    @pytest.mark.parametrize(
        "values",
        [{"status": "archived"}, {"status": "resolved", "resolution": "by_hand"}],
        ids=lambda values: values["status"],
    )
    @pytest.mark.parametrize(
        "disposed",
        [{"disposition": "scheduled", "retry_at": FAILED_AT}, {"disposition": "dead"}],
        ids=lambda values: values["disposition"],
    )
    def test_that_is_not_unresolved_waits_for_nothing(self, database, values, disposed):
        record(database, failure())

        assert refused(database, failed_messages, **values, **disposed)

    def test_shares_its_failure_number_with_no_other_unresolved_one(self, database):
        record(database, failure(), failure())

        assert refused(database, failed_messages, failure_seq=7)

    @pytest.mark.parametrize("name", ["number", "unique_message_id"])
    def test_shares_its_names_with_no_other(self, database, name):
        record(database, failure(), failure())
        first, second = rows(database, failed_messages)

        statement = update(failed_messages).where(failed_messages.c.number == second["number"])
        assert refuses(database, statement.values({name: first[name]}))


class TestAnAttempt:
    @pytest.mark.parametrize(
        "values",
        [
            {"body": None},
            {"same_body_as": 1},
            {"disposition": "held"},
            {"raw_properties": None},
        ],
        ids=str,
    )
    def test_with_a_body_takes_no(self, database, values):
        record(database, failure())

        assert refused(database, processing_attempts, **values)

    def test_may_name_another_instead_of_a_body(self, database):
        record(database, failure())

        assert not refused(database, processing_attempts, body=None, same_body_as=1)


class TestACause:
    def test_stays_as_long_as_a_message_has_it(self, database):
        record(database, failure())

        assert refuses(database, causes.delete())

    def test_is_there_once(self, database):
        record(database, failure())
        (cause,) = rows(database, causes)

        assert refuses(database, insert(causes).values(cause | {"cause_id": NONE}))


class TestAClaim:
    def test_is_not_recorded_before_it_is_stamped(self, bench):
        bring_to(bench, STAGED)

        assert refused(bench.db, failed_message_retries, forwarded_at=FAILED_AT)

    def test_is_not_unstamped_after_it_is_recorded(self, bench):
        bring_to(bench, SENT)

        assert refused(bench.db, failed_message_retries, sending_since=None)

    def test_is_the_only_one_of_its_message(self, bench):
        bring_to(bench, CLAIMED)
        (claim,) = rows(bench.db, failed_message_retries)
        second = claim | {"batch_id": NOBODY, "retry_id": NOBODY}

        assert refuses(bench.db, insert(failed_message_retries).values(second))

    def test_outlives_its_batch(self, bench):
        bring_to(bench, SENT)

        assert rows(bench.db, retry_batches) == []
        assert len(rows(bench.db, failed_message_retries)) == 1


class TestAnEndedRetry:
    @pytest.fixture
    def ended(self, bench):
        """Give one that is kept."""
        retry = bring_to(bench, SENT)
        retry.confirm()
        (kept,) = rows(bench.db, ended_retries)
        return kept

    @pytest.mark.parametrize(
        "values",
        [{"outcome": "lost"}, {"sending_since": None}, {"ended_at": None}, {"outcome": None}],
        ids=str,
    )
    def test_takes_no(self, database, ended, values):
        assert ended
        assert refused(database, ended_retries, **values)

    @pytest.mark.parametrize("outcome", RetryEnd)
    def test_ends_in_any_of_the_known_ways(self, database, ended, outcome):
        assert ended
        assert not refused(database, ended_retries, outcome=outcome)

    def test_is_there_once(self, database, ended):
        assert refuses(database, insert(ended_retries).values(ended))


class TestAnOperation:
    @pytest.mark.parametrize(
        "values",
        [
            {"state": "completed"},
            {"state": "cancelled"},
            {"completed_at": FAILED_AT},
            {"state": "done"},
            {"retry_type": "some"},
        ],
        ids=str,
    )
    def test_that_is_open_takes_no(self, bench, values):
        bring_to(bench, CLAIMED)

        assert refused(bench.db, retry_operations, **values)

    def test_keeps_its_idempotency_key_to_itself(self, bench):
        for _ in range(2):
            bench.ask_all()

        assert refused(bench.db, retry_operations, idempotency_key="k")


@pytest.mark.parametrize("table", [processor_lease, installation], ids=str)
def test_there_is_one_row_only(bench, table):
    (row,) = rows(bench.db, table)

    assert refuses(bench.db, insert(table).values(row | {"id": 2}))
