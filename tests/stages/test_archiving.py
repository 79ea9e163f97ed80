"""The thread that works acts on many off: when it works, when it waits, and what it says."""

import threading

import pytest

from retrier.domain.archive_operation import ArchiveOperationState
from retrier.processor.archive import LOOK, Archiving
from retrier.store.engine.database import Database
from tests.support.archiving import CHUNK, ask, make_archiving, state_of
from tests.support.bench import QUEUE, Bench
from tests.support.flaky_database import FlakyDatabase
from tests.support.waiting import wait_until

MANY = 2 * CHUNK + 1
DEADLINE = 15


@pytest.fixture
def bench(database: Database) -> Bench:
    """Give a bench on a database that can fail."""
    return Bench(FlakyDatabase(database))


def turn(archiving: Archiving) -> float:
    """Take one turn as the loop does; return how long it would wait."""
    return archiving._turn()  # noqa: SLF001 - one turn of the loop, without its thread


def flaky(bench: Bench) -> FlakyDatabase:
    assert isinstance(bench.db, FlakyDatabase)
    return bench.db


def test_a_broker_that_is_away_does_not_stop_it(bench: Bench) -> None:
    bench.fail(MANY)
    bench.ask_all(queue="another")
    asked = ask(bench, queue=QUEUE)
    bench.transport.go_down()
    bench.take_turn()
    archiving = make_archiving(bench)

    while not turn(archiving):
        pass

    assert state_of(bench, asked).state is ArchiveOperationState.COMPLETED


def test_without_the_lease_it_does_nothing(bench: Bench) -> None:
    bench.fail(MANY)
    asked = ask(bench, queue=QUEUE)
    bench.context.lease.lose()

    assert turn(make_archiving(bench)) == LOOK
    assert state_of(bench, asked).state is ArchiveOperationState.WAITING


def test_a_lease_that_another_process_took_ends_its_work_without_a_word(bench: Bench) -> None:
    bench.fail(MANY)
    asked = ask(bench, queue=QUEUE)
    archiving = make_archiving(bench)
    turn(archiving)
    bench.lose_lease()

    assert turn(archiving) == LOOK
    assert state_of(bench, asked).done == CHUNK
    assert "archive.paused" not in bench.told.names


def test_a_chunk_that_fails_is_told_once_and_done_later(bench: Bench) -> None:
    bench.fail(MANY)
    asked = ask(bench, queue=QUEUE)
    archiving = make_archiving(bench)
    flaky(bench).refuse("work_off", times=2)

    waits = [turn(archiving), turn(archiving), turn(archiving)]

    assert waits[0] < waits[1]
    assert waits[2] == 0
    told = [name for name in bench.told.names if name.startswith("archive.")]
    assert told == ["archive.asked", "archive.paused", "archive.resumed"]
    assert state_of(bench, asked).done == CHUNK


def test_a_chunk_whose_answer_was_lost_is_not_counted_twice(bench: Bench) -> None:
    bench.fail(MANY)
    asked = ask(bench, queue=QUEUE)
    archiving = make_archiving(bench)
    flaky(bench).silence("work_off")

    for _ in range(MANY + 1):
        turn(archiving)

    found = state_of(bench, asked)
    assert (found.done, found.skipped) == (MANY, 0)


def test_a_request_wakes_it_and_the_stop_ends_it(bench: Bench) -> None:
    archiving = make_archiving(bench)
    thread = threading.Thread(target=archiving.run)
    thread.start()
    bench.fail(MANY)

    asked = ask(bench, queue=QUEUE)
    bench.wake.set()

    over = ArchiveOperationState.COMPLETED
    wait_until(lambda: state_of(bench, asked).state is over, DEADLINE, "it is worked off")
    bench.context.stop.set()
    bench.wake.set()
    thread.join(DEADLINE)
    assert not thread.is_alive()
