"""Breakers in the database: who waits for whom, and who counts where."""

import threading
from datetime import timedelta

import pytest
from sqlalchemy import func, select, text, update

from retrier.domain.breakers import BreakerState
from retrier.store.engine.database import Database
from retrier.store.figures import MOST_NAMED_BREAKERS, read_figures
from retrier.store.schema import breaker_counts, breakers
from retrier.store.upkeep import sweep_breaker_counts
from tests.support.bench import QUEUE
from tests.support.breaking import Breakdown
from tests.support.halting import SLOW, halted
from tests.support.waiting import wait_until

DEADLINE = 20
HOUR = timedelta(hours=1)
WAITING = text(
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


@pytest.fixture
def bench(database: Database) -> Breakdown:
    return Breakdown(database)


@pytest.mark.parametrize(
    "database", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
def test_who_closes_one_waits_for_the_cut_that_leaves_out_its_messages(bench: Breakdown) -> None:
    # Given two breakers that are held, and a cut that halts when it has looked what they hold
    ids = bench.fail(2)
    bench.fail(queue="payments")
    for key in (QUEUE, "payments"):
        bench.set(key, BreakerState.OPEN, lasts=HOUR)
    bench.ask_all()
    cutting = threading.Thread(target=bench.turn, name=f"{SLOW} cut")
    closing = threading.Thread(target=lambda: bench.set(QUEUE, BreakerState.CLOSED))

    # When a person closes one of them meanwhile
    with halted(bench.db, "FOR UPDATE") as (reached, go_on):
        cutting.start()
        assert reached.wait(DEADLINE)
        closing.start()
        wait_until(lambda: bench.rows(WAITING)[0]["count"], DEADLINE, "it waits")
        go_on.set()
        cutting.join(DEADLINE)
    closing.join(DEADLINE)
    bench.work()

    # Then the operation has looked again, though the other one still holds a message of it
    assert bench.sent() == ids


def test_each_thread_counts_in_rows_of_its_own(bench: Breakdown) -> None:
    ids = bench.fail(4)
    bench.ask(ids)
    bench.work()

    threads = [threading.Thread(target=bench.come_back, args=([key],)) for key in ids[:2]]
    for thread in threads:
        thread.start()
        thread.join(DEADLINE)

    counters = bench.rows(select(func.count(breaker_counts.c.counted_by.distinct()).label("n")))
    assert counters == [{"n": 3}]  # two of ingestion, one of the processor
    assert bench.counted() == (4, 0, 2, 0)


def test_what_ended_threads_have_counted_is_swept(bench: Breakdown) -> None:
    bench.ask(bench.fail(2))
    bench.work()

    assert sweep_breaker_counts(bench.db, older_than=HOUR) == 0
    assert sweep_breaker_counts(bench.db, older_than=-HOUR) == 1
    assert bench.counted() == (0, 0, 0, 0)


def test_what_was_not_old_at_the_look_before_stays_counted(bench: Breakdown) -> None:
    bench.ask(bench.fail(2))
    bench.work()
    long_ago = bench.db.read(lambda tx: tx.now) - 2 * HOUR

    assert sweep_breaker_counts(bench.db, older_than=-HOUR, as_of=long_ago) == 0
    assert bench.counted() == (2, 0, 0, 0)


def test_a_failure_that_arrives_before_its_window_is_recorded_counts_it_as_sent(
    bench: Breakdown,
) -> None:
    (key,) = bench.fail()
    bench.ask([key])
    bench.at("forwarding.published", lambda: bench.come_back([key]))

    bench.work()

    assert bench.counted() == (1, 0, 1, 0)


def test_two_acts_on_one_key_make_one_breaker(bench: Breakdown) -> None:
    bench.set(QUEUE, BreakerState.OPEN, lasts=HOUR)
    bench.set(QUEUE, BreakerState.CLOSED)

    assert bench.rows_of_breakers() == 1


def test_names_that_people_make_up_hide_no_breaker_that_opened_by_itself(bench: Breakdown) -> None:
    """A metric has a time series for each name; people can open a breaker for any."""
    for number in range(MOST_NAMED_BREAKERS + 1):
        bench.set(f"made up {number}", BreakerState.OPEN, lasts=HOUR)
    bench.set(QUEUE, BreakerState.OPEN, lasts=HOUR)
    since = breakers.c.changed_at
    by_itself = {"state": BreakerState.OPEN, "opened_at": since, "due_at": since}
    nobody = {"hand": None, "hand_until": None, "hand_who": None}
    with bench.db.engine.begin() as conn:
        conn.execute(update(breakers).where(breakers.c.name == QUEUE).values(by_itself | nobody))

    figures = read_figures(bench.db)

    assert len(figures.open_breakers) == MOST_NAMED_BREAKERS
    assert QUEUE in figures.open_breakers
    assert "made up 0" in figures.open_breakers
    assert figures.breakers[BreakerState.OPEN] == MOST_NAMED_BREAKERS + 2
