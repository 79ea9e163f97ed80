"""The job that reads words of messages: who does it, where it goes on, and what a kill leaves."""

import pytest
from sqlalchemy import select

from retrier.app.schedule import WordFilling
from retrier.domain.selection import Selection
from retrier.errors import DatabaseUnavailable
from retrier.processor.lease import Lease
from retrier.store.engine.database import Database
from retrier.store.schema import attempt_number
from retrier.store.selections import count_matches
from retrier.store.verification import verify_store
from retrier.store.words import MOST_AT_ONCE, get_lag
from tests.support.bench import Bench
from tests.support.flaky_database import FlakyDatabase
from tests.support.words import BODY_BYTES, CODEC

MORE_THAN_A_CHUNK = MOST_AT_ONCE + 1


@pytest.fixture
def flaky(database: Database) -> FlakyDatabase:
    return FlakyDatabase(database)


@pytest.fixture
def bench(flaky: FlakyDatabase) -> Bench:
    return Bench(flaky)


def job(bench: Bench, lease: Lease | None = None) -> WordFilling:
    """Return the job of a process: of the bench's, unless another lease is given."""
    return WordFilling(
        db=bench.db,
        lease=lease or bench.context.lease,
        codec=CODEC,
        body_bytes=BODY_BYTES,
        clock=bench.clock,
        stop=bench.context.stop,
    )


def found(bench: Bench) -> int:
    return count_matches(bench.db, Selection(words="nothing left"))


def broken_rules(bench: Bench) -> list[str]:
    return [rule.rule for rule in verify_store(bench.db).rules if rule.broken]


def test_all_words_are_read_chunk_by_chunk(bench: Bench) -> None:
    bench.fail(MORE_THAN_A_CHUNK)

    job(bench)()

    assert found(bench) == MORE_THAN_A_CHUNK


def test_words_of_what_comes_later_are_read_by_a_later_call(bench: Bench) -> None:
    bench.fail(1)
    again = job(bench)
    again()
    bench.fail(2)

    again()

    assert found(bench) == 3


def test_what_is_read_costs_no_transaction_that_writes(bench: Bench, flaky: FlakyDatabase) -> None:
    bench.fail(1)
    again = job(bench)
    again()
    names: list[str] = []
    flaky.before = names.append

    again()

    assert names == ["read", "read"]


def test_a_process_that_dies_in_a_chunk_leaves_it_to_the_next(
    bench: Bench, flaky: FlakyDatabase
) -> None:
    bench.fail(MORE_THAN_A_CHUNK)
    flaky.refuse("write_words")
    with pytest.raises(DatabaseUnavailable):
        job(bench)()
    bench.restart()

    job(bench)()

    assert found(bench) == MORE_THAN_A_CHUNK
    assert broken_rules(bench) == []


def test_a_process_that_dies_behind_a_chunk_does_not_read_it_twice(
    bench: Bench, flaky: FlakyDatabase
) -> None:
    bench.fail(MORE_THAN_A_CHUNK)
    flaky.silence("write_words")
    with pytest.raises(DatabaseUnavailable):
        job(bench)()
    lag = get_lag(bench.db)
    assert lag is not None
    assert lag.backlog == 1
    bench.restart()

    job(bench)()

    assert found(bench) == MORE_THAN_A_CHUNK


def test_a_process_without_the_lease_does_not_even_look(bench: Bench, flaky: FlakyDatabase) -> None:
    bench.fail(1)
    standby = bench.lose_lease()
    standby.release()
    names: list[str] = []
    flaky.before = names.append

    job(bench, standby)()

    assert names == []


@pytest.mark.parametrize(
    "database", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
def test_a_failure_that_is_not_committed_yet_is_waited_for(bench: Bench) -> None:
    again = job(bench)
    again()
    with bench.db.engine.connect() as other:
        other.execute(select(attempt_number.next_value()))
        bench.fail(1)
        again()
        assert found(bench) == 0

    again()

    assert found(bench) == 1
