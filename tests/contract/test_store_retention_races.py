"""Retention and somebody else at the same message in the same moment, on PostgreSQL."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from threading import Event

import pytest
from sqlalchemy import insert, text

from retrier.domain.archive_operation import Act
from retrier.domain.failed_message import Failure
from retrier.store.archive import Action, ActionResult
from retrier.store.engine.database import Database
from retrier.store.figures import read_ledger
from retrier.store.retention import DeletedChunk, delete_chunk
from retrier.store.schema import outgoing, processing_attempts, processor_lease
from retrier.store.verification import verify_store
from tests.contract.store_rows import again, ledger_entries, messages, record, rows
from tests.contract.test_store_concurrency import at_once, count_deadlocks, count_waiting
from tests.support.acting import apply_action
from tests.support.bench import QUEUE, Bench
from tests.support.databases import empty
from tests.support.factories import confirmation, failure, unique_id
from tests.support.halting import DEADLINE, halted
from tests.support.old import DAY, age, ago, make_retention, settle
from tests.support.waiting import wait_until

pytestmark = pytest.mark.postgres

MESSAGE_DELETED = "DELETE FROM failed_messages"
MESSAGES_LOCKED = "SKIP LOCKED"


@pytest.fixture
def bench(shared_postgres: Database) -> Bench:
    """Give a bench on the PostgreSQL database of the run, empty."""
    empty(shared_postgres)
    return Bench(shared_postgres)


@pytest.fixture
def other() -> Iterator[ThreadPoolExecutor]:
    """Give a pool of threads that are not."""
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture
def old(bench: Bench) -> Failure:
    """Give a message that was archived long ago."""
    old = failure(queue=QUEUE)
    bench.receive(old)
    settle(bench.db, Act.ARCHIVE, [unique_id(old)])
    age(bench.db, 11)
    return old


def delete(bench: Bench, kept: timedelta = 10 * DAY) -> DeletedChunk:
    """Delete one chunk of archived messages."""
    others_off = {"resolved": None, "presumed": None, "operations": None}
    ages = make_retention(bench, archived=kept, **others_off).ages
    return delete_chunk(bench.db, bench.context.lease.fence, ages[0], "test")


def unarchive(db: Database, old: Failure) -> ActionResult:
    return apply_action(db, Action(act=Act.UNARCHIVE, who="ada"), [unique_id(old)])


def is_sound(db: Database) -> bool:
    ledger = read_ledger(db)
    broken = [rule.rule for rule in verify_store(db).rules if rule.broken]
    return (broken, ledger.missing_messages, ledger.uncounted_deliveries) == ([], 0, 0)


class TestAMessageThatSomebodyElseHolds:
    """A transaction that has locked the message and is not committed yet."""

    @pytest.mark.parametrize("deed", ["failure", "unarchive"])
    def test_is_left_out_and_not_waited_for(
        self, bench: Bench, slow: ThreadPoolExecutor, old: Failure, deed: str
    ) -> None:
        deeds: dict[str, Callable[[], object]] = {
            "failure": partial(record, bench.db, again(old, queue=QUEUE)),
            "unarchive": partial(unarchive, bench.db, old),
        }
        with halted(bench.db, "UPDATE failed_messages") as (reached, go_on):
            doing = slow.submit(deeds[deed])
            assert reached.wait(DEADLINE)
            deleted = delete(bench)
            go_on.set()
            doing.result(DEADLINE)

        assert deleted.count == 0
        assert messages(bench.db)[unique_id(old)]["status"] == "unresolved"
        assert is_sound(bench.db)


def test_a_message_that_got_a_copy_to_be_sent_before_it_was_locked_stays(
    bench: Bench, slow: ThreadPoolExecutor, old: Failure
) -> None:
    # Given a failure that is stored after retention has looked: only its copy is added here
    number = messages(bench.db)[unique_id(old)]["number"]
    (attempt,) = rows(bench.db, processing_attempts)
    copy = {"number": number, "attempt_id": attempt["attempt_id"], "queue": "error.log"}
    with halted(bench.db, MESSAGES_LOCKED) as (reached, go_on):
        deleting = slow.submit(delete, bench)
        assert reached.wait(DEADLINE)
        with bench.db.engine.begin() as conn:
            conn.execute(insert(outgoing).values(created_at=ago(0), **copy))
        go_on.set()

        assert deleting.result(DEADLINE).count == 0

    assert number in {row["number"] for row in messages(bench.db).values()}
    assert is_sound(bench.db)


class TestAMessageThatIsBeingDeleted:
    """Retention has locked it, and is not committed yet."""

    def while_deleted(
        self, bench: Bench, slow: ThreadPoolExecutor, act: Callable[[], object]
    ) -> object:
        """Do something that waits for the message while it is being deleted."""
        with (
            ThreadPoolExecutor(1) as other,
            halted(bench.db, MESSAGE_DELETED) as (reached, go_on),
        ):
            deleting = slow.submit(delete, bench)
            assert reached.wait(DEADLINE)
            doing = other.submit(act)
            wait_until(lambda: count_waiting(bench.db) == 1, DEADLINE)
            go_on.set()
            assert deleting.result(DEADLINE).count == 1
            return doing.result(DEADLINE)

    def test_is_a_new_one_for_a_failure_that_waited(
        self, bench: Bench, slow: ThreadPoolExecutor, old: Failure
    ) -> None:
        number = messages(bench.db)[unique_id(old)]["number"]

        self.while_deleted(bench, slow, partial(record, bench.db, again(old, queue=QUEUE)))

        row = messages(bench.db)[unique_id(old)]
        assert (row["status"], row["attempts"]) == ("unresolved", 1)
        assert row["number"] > number
        assert is_sound(bench.db)

    def test_is_unknown_to_a_person_who_waited(
        self, bench: Bench, slow: ThreadPoolExecutor, old: Failure
    ) -> None:
        acted = self.while_deleted(bench, slow, partial(unarchive, bench.db, old))

        assert isinstance(acted, ActionResult)
        assert (acted.done, list(acted.refused)) == ((), [unique_id(old)])
        assert messages(bench.db) == {}
        assert is_sound(bench.db)

    def test_is_unknown_to_a_confirmation_that_waited(
        self, bench: Bench, slow: ThreadPoolExecutor, old: Failure
    ) -> None:
        confirming = partial(record, bench.db, confirmation(unique_id(old)))

        self.while_deleted(bench, slow, confirming)

        assert messages(bench.db) == {}
        assert ledger_entries(bench.db)["failed_imports"] == 1
        assert is_sound(bench.db)

    def test_is_there_again_if_the_transaction_does_not_come_to_its_end(
        self, bench: Bench, slow: ThreadPoolExecutor, old: Failure
    ) -> None:
        with halted(bench.db, MESSAGE_DELETED) as (reached, go_on):
            deleting = slow.submit(delete, bench)
            assert reached.wait(DEADLINE)
            with bench.db.engine.begin() as conn:
                conn.execute(
                    text(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
                        "datname = current_database() AND state = 'idle in transaction'"
                    )
                )
            go_on.set()
            assert deleting.exception(DEADLINE) is not None

        assert list(messages(bench.db)) == [unique_id(old)]
        assert "deleted" not in ledger_entries(bench.db)
        assert is_sound(bench.db)


def test_nothing_is_claimed_while_messages_are_deleted(
    bench: Bench, slow: ThreadPoolExecutor, other: ThreadPoolExecutor, old: Failure
) -> None:
    bench.fail()
    bench.ask_all()

    with halted(bench.db, MESSAGES_LOCKED) as (reached, go_on):
        deleting = slow.submit(delete, bench)
        assert reached.wait(DEADLINE)
        marking = other.submit(bench.turn)
        wait_until(lambda: count_waiting(bench.db) == 1, DEADLINE)
        assert not rows(bench.db, processor_lease)[0]["epoch"] > 1
        assert bench.claims() == {}
        go_on.set()
        assert deleting.result(DEADLINE).count == 1
        marking.result(DEADLINE)

    assert unique_id(old) not in messages(bench.db)
    assert len(bench.claims()) == 1
    assert is_sound(bench.db)


def test_two_that_believe_to_be_the_processor_delete_each_message_once(bench: Bench) -> None:
    ids = bench.fail(200)
    settle(bench.db, Act.ARCHIVE, ids)
    age(bench.db, 11)

    at_once(lambda: delete(bench), lambda: delete(bench), lambda: delete(bench))

    assert messages(bench.db) == {}
    assert ledger_entries(bench.db)["deleted"] == 200
    assert is_sound(bench.db)


def test_failures_and_acts_beside_it_end_in_no_deadlock_and_lose_nothing(bench: Bench) -> None:
    firsts = [failure(queue=QUEUE) for _ in range(100)]
    record(bench.db, *firsts)
    ids = [unique_id(each) for each in firsts]
    ended = Event()
    before = count_deadlocks(bench.db)

    def delete_at_once() -> int:
        counts: list[int] = []

        def delete_some() -> bool:
            counts.extend(delete(bench, timedelta(microseconds=1)).count for _ in range(200))
            return any(counts)

        try:
            wait_until(delete_some, DEADLINE, "one of them was deleted")
        finally:
            ended.set()
        return sum(counts)

    def fail_again() -> None:
        while not ended.is_set():
            record(bench.db, *(again(each, queue=QUEUE) for each in firsts[::-1]))

    def archive() -> None:
        while not ended.is_set():
            apply_action(bench.db, Action(act=Act.ARCHIVE, who="ada"), ids)

    deleted, *_ = at_once(delete_at_once, fail_again, archive)

    assert deleted == ledger_entries(bench.db)["deleted"] > 0
    assert count_deadlocks(bench.db) == before
    assert is_sound(bench.db)
