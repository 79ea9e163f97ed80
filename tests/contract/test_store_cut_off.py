"""The cut-off, on PostgreSQL: what takes numbers is entirely before a click or after it."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from retrier.domain.archive_operation import Act
from retrier.domain.retry_batch import Ejected, WindowResult
from retrier.store.archive import Action
from retrier.store.batches import find_most_advanced
from retrier.store.forwarding import open_window
from tests.contract.store_retries import STAGED, bring_to
from tests.contract.store_rows import message, messages, record
from tests.support.acting import apply_action
from tests.support.bench import Bench
from tests.support.databases import empty
from tests.support.factories import failure, unique_id
from tests.support.halting import DEADLINE, halted
from tests.support.waiting import wait_until

pytestmark = pytest.mark.postgres

NUMBERS_TAKEN = "nextval('failure_seq')"
CUT_OFF_TAKEN = "FROM failure_seq"
COUNTED = "count(*) AS"
WAITING = text(
    "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database "
    "WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted"
)


@pytest.fixture
def bench(shared_postgres):
    """Give a bench on the PostgreSQL database of the run, empty."""
    empty(shared_postgres)
    return Bench(shared_postgres)


@pytest.fixture
def other():
    """Give a pool of threads that are not."""
    with ThreadPoolExecutor(2) as pool:
        yield pool


def is_any_waiting(db):
    return db.read(lambda tx: tx.execute(WAITING).scalar_one()) > 0


def failures(count):
    return [failure() for _ in range(count)]


def test_numbers_that_were_taken_before_the_click_are_before_the_cut_off(bench, slow, other):
    record(bench.db, failure())
    with halted(bench.db, NUMBERS_TAKEN) as (reached, go_on):
        ingested = slow.submit(record, bench.db, *failures(5))
        assert reached.wait(DEADLINE)
        record(bench.db, *failures(5))

        clicked = other.submit(bench.ask_all)
        wait_until(lambda: is_any_waiting(bench.db), DEADLINE)
        go_on.set()

        ingested.result(DEADLINE)
        created = clicked.result(DEADLINE)
    assert (created.total, bench.operation(created)["cut_off"]) == (11, 11)


def test_numbers_that_are_taken_after_the_click_are_above_the_cut_off(bench, slow, other):
    record(bench.db, *failures(3))
    later = failures(4)
    with halted(bench.db, CUT_OFF_TAKEN) as (reached, go_on):
        clicked = slow.submit(bench.ask_all)
        assert reached.wait(DEADLINE)

        ingested = other.submit(record, bench.db, *later)
        wait_until(lambda: is_any_waiting(bench.db), DEADLINE)
        go_on.set()

        ingested.result(DEADLINE)
        created = clicked.result(DEADLINE)
    cut_off = bench.operation(created)["cut_off"]
    assert created.total == 3
    assert all(message(bench.db, unique_id(each))["failure_seq"] > cut_off for each in later)


def test_who_stores_failures_goes_on_while_a_click_counts_its_messages(bench, slow):
    record(bench.db, *failures(3))
    with halted(bench.db, COUNTED) as (reached, go_on):
        clicked = slow.submit(bench.ask_all)
        assert reached.wait(DEADLINE)

        record(bench.db, *failures(4))

        assert len(messages(bench.db)) == 7
        go_on.set()
        created = clicked.result(DEADLINE)
    assert (created.total, bench.operation(created)["cut_off"]) == (3, 3)


def test_what_leaves_a_selection_while_a_click_counts_it_is_counted_or_not(bench, slow):
    """What is counted already stays in the total, and is skipped when its turn comes."""
    (first,) = bench.fail()
    bench.fail()
    with halted(bench.db, COUNTED) as (reached, go_on):
        clicked = slow.submit(bench.ask_all)
        assert reached.wait(DEADLINE)
        apply_action(bench.db, Action(act=Act.ARCHIVE, who="ada"), [first])
        go_on.set()
        created = clicked.result(DEADLINE)

    bench.work()

    row = bench.operation(created)
    assert (row["total"], row["forwarded"], row["skipped"]) == (2, 1, 1)


def test_ingesters_of_known_causes_do_not_wait_for_each_other(bench, slow):
    record(bench.db, failure())
    with halted(bench.db, NUMBERS_TAKEN) as (reached, go_on):
        ingested = slow.submit(record, bench.db, *failures(2))
        assert reached.wait(DEADLINE)

        record(bench.db, *failures(3))

        assert len(messages(bench.db)) == 4
        go_on.set()
        ingested.result(DEADLINE)


class TestAMessageThatIsTakenBackOutOfItsRetry:
    """It takes a new number as well, in the processor's transaction."""

    def take_back(self, bench, retry):
        batch = bench.db.read(find_most_advanced).batch
        number = retry.message["number"]
        refused = Ejected(number=number, unique_message_id=retry.key, reason="refused")
        window = WindowResult(reverted=(refused,))
        open_window(bench.db, bench.context.lease.fence, batch, finished=window, numbers=[])

    def test_is_before_the_cut_off_if_it_took_its_number_before_the_click(self, bench, slow, other):
        retry = bring_to(bench, STAGED)
        with halted(bench.db, NUMBERS_TAKEN) as (reached, go_on):
            taken_back = slow.submit(self.take_back, bench, retry)
            assert reached.wait(DEADLINE)

            clicked = other.submit(bench.ask_all)
            wait_until(lambda: is_any_waiting(bench.db) or clicked.done(), DEADLINE)
            go_on.set()

            taken_back.result(DEADLINE)
            created = clicked.result(DEADLINE)
        cut_off = bench.operation(created)["cut_off"]
        assert bench.message(retry.key)["failure_seq"] <= cut_off
        assert created.total == 1

    def test_waits_for_no_click_that_waits_for_an_ingester_that_waits_for_it(
        self, bench, slow, other
    ):
        """The server lets it pass the click in the queue of the lock."""
        retry = bring_to(bench, STAGED)
        with halted(bench.db, "FOR UPDATE") as (reached, go_on):
            taken_back = slow.submit(self.take_back, bench, retry)
            assert reached.wait(DEADLINE)
            ingested = other.submit(retry.fail, time_of_failure=None)
            wait_until(lambda: is_row_waited_for(bench.db), DEADLINE)
            clicked = other.submit(bench.ask_all)
            wait_until(lambda: is_any_waiting(bench.db), DEADLINE)
            go_on.set()

            taken_back.result(DEADLINE)
            ingested.result(DEADLINE)
            assert clicked.result(DEADLINE).total == 1


def is_row_waited_for(db):
    query = text(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    return db.read(lambda tx: tx.execute(query).scalar_one()) > 0
