"""The task that presumes old pending retries to have succeeded: who does it, and where it ends."""

from datetime import timedelta

import pytest

from retrier.app.presumption import Presumption, seconds_between_looks
from retrier.domain.retention import SecondLook
from retrier.errors import DatabaseUnavailable
from retrier.events.service import ChunkPresumed
from retrier.processor.lease import Lease
from retrier.store.engine.database import Database
from retrier.store.pending import PRESUMED_AT_ONCE
from retrier.store.verification import verify_store
from tests.support.bench import Bench, Killed
from tests.support.flaky_database import FlakyDatabase
from tests.support.old import ago, at_once

AT_ONCE = timedelta(0)
MORE_THAN_A_CHUNK = PRESUMED_AT_ONCE + 1


@pytest.fixture
def flaky(database: Database) -> FlakyDatabase:
    return FlakyDatabase(database)


@pytest.fixture
def bench(flaky: FlakyDatabase) -> Bench:
    return Bench(flaky, window=1000)


def task(
    bench: Bench,
    *,
    lease: Lease | None = None,
    sent_for: timedelta = AT_ONCE,
    second_look: SecondLook | None = None,
) -> Presumption:
    """Return the task of a process: of the bench's, unless another lease is given."""
    return Presumption(
        db=bench.db,
        lease=lease or bench.context.lease,
        sent_for=sent_for,
        second_look=second_look or at_once(),
        clock=bench.clock,
        emit=bench.emit,
        stop=bench.context.stop,
        wake=bench.wake,
    )


def send(bench: Bench, count: int) -> list[str]:
    """Let so many retries have been sent."""
    ids = bench.fail(count)
    bench.ask_all()
    bench.work()
    return ids


def how_many(bench: Bench, status: str) -> int:
    return list(bench.statuses().values()).count(status)


def broken_rules(bench: Bench) -> list[str]:
    return [rule.rule for rule in verify_store(bench.db).rules if rule.broken]


def test_everything_that_is_due_is_resolved_chunk_by_chunk(bench: Bench) -> None:
    send(bench, MORE_THAN_A_CHUNK)
    chunks: list[int] = []
    bench.subscriber = lambda event: (
        chunks.append(event.count) if isinstance(event, ChunkPresumed) else None
    )

    task(bench)()

    assert chunks == [PRESUMED_AT_ONCE, 1]
    assert how_many(bench, "resolved") == MORE_THAN_A_CHUNK
    assert bench.told.of("retries.presumed") == [{"count": MORE_THAN_A_CHUNK}]
    assert broken_rules(bench) == []


def test_what_is_not_due_costs_no_transaction_that_writes(
    bench: Bench, flaky: FlakyDatabase
) -> None:
    send(bench, 2)
    names: list[str] = []
    flaky.before = names.append

    task(bench, sent_for=timedelta(hours=1))()

    assert names == ["read"]
    assert bench.told.of("retries.presumed") == []


def test_a_process_that_is_killed_after_a_chunk_leaves_the_rest_as_it_was(bench: Bench) -> None:
    send(bench, MORE_THAN_A_CHUNK)
    bench.kill_at(ChunkPresumed.name)

    with pytest.raises(Killed):
        task(bench)()

    assert how_many(bench, "resolved") == PRESUMED_AT_ONCE
    assert how_many(bench, "retry_issued") == 1
    assert broken_rules(bench) == []
    bench.restart()
    task(bench)()
    assert how_many(bench, "resolved") == MORE_THAN_A_CHUNK


def test_what_was_not_due_at_the_look_before_stays_pending(bench: Bench) -> None:
    send(bench, 1)
    an_hour_ago = SecondLook(timedelta(0))
    an_hour_ago.note(0, ago(1 / 24))

    task(bench, second_look=an_hour_ago)()

    assert how_many(bench, "retry_issued") == 1


def test_nothing_is_presumed_before_there_was_a_second_look(bench: Bench) -> None:
    send(bench, 1)

    task(bench, second_look=SecondLook(timedelta(hours=1)))()

    assert how_many(bench, "retry_issued") == 1


def test_nothing_is_sent_again_by_it(bench: Bench) -> None:
    ids = send(bench, 3)

    task(bench)()
    bench.restart()
    bench.work()

    assert bench.sent() == ids


def test_a_process_without_the_lease_does_not_even_look(bench: Bench, flaky: FlakyDatabase) -> None:
    send(bench, 1)
    standby = bench.lose_lease()
    standby.release()
    names: list[str] = []
    flaky.before = names.append

    task(bench, lease=standby)()

    assert names == []
    assert how_many(bench, "retry_issued") == 1


def test_of_two_processes_the_holder_of_the_lease_does_it(bench: Bench) -> None:
    send(bench, 1)
    former, holder = bench.context.lease, bench.lose_lease()

    task(bench, lease=former)()
    assert how_many(bench, "retry_issued") == 1

    task(bench, lease=holder)()
    assert how_many(bench, "resolved") == 1


def test_a_lease_that_is_lost_between_two_chunks_ends_it(bench: Bench) -> None:
    send(bench, MORE_THAN_A_CHUNK)
    bench.at(ChunkPresumed.name, bench.lose_lease)

    task(bench)()

    assert how_many(bench, "resolved") == PRESUMED_AT_ONCE
    assert bench.told.of("retries.presumed") == [{"count": PRESUMED_AT_ONCE}]
    assert bench.wake.is_set()  # so that the processor notices


def test_a_stop_is_heard_between_two_chunks(bench: Bench) -> None:
    send(bench, MORE_THAN_A_CHUNK)
    bench.at(ChunkPresumed.name, bench.context.stop.set)

    task(bench)()

    assert how_many(bench, "resolved") == PRESUMED_AT_ONCE


def test_a_database_that_fails_between_two_chunks_is_told_of_with_what_was_done(
    bench: Bench, flaky: FlakyDatabase
) -> None:
    send(bench, MORE_THAN_A_CHUNK)
    bench.at(ChunkPresumed.name, lambda: flaky.refuse("presume"))

    with pytest.raises(DatabaseUnavailable):
        task(bench)()

    assert bench.told.of("retries.presumed") == [{"count": PRESUMED_AT_ONCE}]
    task(bench)()
    assert how_many(bench, "resolved") == MORE_THAN_A_CHUNK


def test_a_commit_whose_answer_is_lost_is_not_done_twice(
    bench: Bench, flaky: FlakyDatabase
) -> None:
    send(bench, 2)
    flaky.silence("presume")

    with pytest.raises(DatabaseUnavailable):
        task(bench)()
    task(bench)()

    assert how_many(bench, "resolved") == 2
    assert broken_rules(bench) == []


def test_an_outcome_that_comes_between_two_chunks_decides(bench: Bench) -> None:
    ids = send(bench, MORE_THAN_A_CHUNK)
    bench.at(ChunkPresumed.name, lambda: [bench.confirm(ids[0]), bench.confirm(ids[-1])])

    task(bench)()

    assert [bench.message(each)["resolution"] for each in (ids[0], ids[-1])] == ["confirmed"] * 2
    assert how_many(bench, "resolved") == MORE_THAN_A_CHUNK
    assert broken_rules(bench) == []


@pytest.mark.parametrize(
    ("sent_for", "seconds"),
    [(timedelta(seconds=2), 1), (timedelta(minutes=5), 30), (timedelta(days=2), 60)],
)
def test_it_is_looked_for_the_less_often_the_longer_it_takes(
    sent_for: timedelta, seconds: float
) -> None:
    assert seconds_between_looks(sent_for) == seconds
