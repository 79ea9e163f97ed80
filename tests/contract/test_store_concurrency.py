"""Many at once, on PostgreSQL: nothing is lost, nothing is doubled, no deadlock escapes."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from threading import Barrier, Event

import pytest
from sqlalchemy import Table, insert, text

from retrier.domain.failed_message import Failure
from retrier.domain.retry_batch import WindowResult
from retrier.store.batches import find_most_advanced
from retrier.store.engine.database import Database
from retrier.store.forwarding import open_window
from retrier.store.schema import (
    cause_groups,
    causes,
    failed_message_retries,
    failed_messages,
    failure_groups,
    processing_attempts,
)
from retrier.store.verification import verify_store
from tests.contract.store_rows import (
    again,
    claims,
    ledger_entries,
    messages,
    record,
    redelivered,
    rows,
    untold,
)
from tests.support.bench import QUEUE, Bench, Killed
from tests.support.databases import empty
from tests.support.factories import FAILED_AT, confirmation, failure, unique_id
from tests.support.waiting import wait_until

pytestmark = pytest.mark.postgres

DEADLINE = 30.0
DEADLOCKS = text("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
OTHERS = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
    "AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
)
END_IDLE = text(
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
    "WHERE datname = current_database() AND backend_type = 'client backend' "
    "AND state = 'idle' AND pid <> pg_backend_pid()"
)
"""What earlier tests of this process have left in pools of their own; pools notice when they are used."""
THEIRS = "7e125000-0000-4000-8000-000000000001"


@pytest.fixture
def postgres(shared_postgres):
    """Give the PostgreSQL database of the run, empty."""
    empty(shared_postgres)
    return shared_postgres


@pytest.fixture
def deadlocks(postgres):
    """Give a function that counts the deadlocks of this test, which are tried again unseen."""
    before = count_deadlocks(postgres)
    return lambda: count_deadlocks(postgres) - before


def count_deadlocks(db: Database) -> int:
    """Ask the server, which a session tells of them when it ends, at the latest."""
    db.engine.dispose()
    db.read(lambda tx: tx.execute(END_IDLE).scalar_one())
    wait_until(lambda: db.read(lambda tx: tx.execute(OTHERS).scalar_one()) == 0, DEADLINE)
    return db.read(lambda tx: tx.execute(DEADLOCKS).scalar_one())


def at_once(*acts: Callable[[], object]) -> list[object]:
    """Do all of it at the same time; raise what one of them raises."""
    ready = Barrier(len(acts), timeout=DEADLINE)

    def start(act):
        ready.wait()
        return act()

    with ThreadPoolExecutor(len(acts)) as pool:
        return [each.result(DEADLINE) for each in [pool.submit(start, act) for act in acts]]


def recording(db: Database, batch: Sequence[Failure]) -> Callable[[], object]:
    return lambda: record(db, *batch)


def run_into(db: Database, table: Table, row: dict, *acts: Callable[[], object]) -> None:
    """Let the acts run into a row that is being inserted, until all wait; then it is not."""
    with db.engine.connect() as holder, ThreadPoolExecutor(len(acts)) as pool:
        holder.execute(insert(table), [row])
        running = [pool.submit(act) for act in acts]
        wait_until(lambda: count_waiting(db) == len(acts), DEADLINE)
        holder.rollback()
        for each in running:
            each.result(DEADLINE)


def count_waiting(db: Database) -> int:
    """Count the sessions that wait for a lock."""
    query = text(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    return db.read(lambda tx: tx.execute(query).scalar_one())


def batches_of(items: Sequence, size: int):
    return [items[start : start + size] for start in range(0, len(items), size)]


def record_all(db, batches):
    for batch in batches:
        record(db, *batch)


def put_last_first(db: Database) -> None:
    """Lay the claims down in the order that is the reverse of their numbers."""
    with db.engine.begin() as conn:
        conn.execute(text("CREATE TEMPORARY TABLE kept AS SELECT * FROM failed_message_retries"))
        conn.execute(text("DELETE FROM failed_message_retries"))
        backwards = "SELECT * FROM kept ORDER BY number DESC"
        conn.execute(text(f"INSERT INTO failed_message_retries {backwards}"))
        conn.execute(text("DROP TABLE kept"))


def stage(bench: Bench, count: int) -> tuple[list[int], Callable[[], list[int]]]:
    """Bring messages into Forwarding; return their numbers, and what stamps them and says which."""
    ids = bench.fail(count)
    bench.ask_all()
    bench.kill_at("staging.committed")
    with pytest.raises(Killed):
        bench.work()
    found, fence = bench.db.read(find_most_advanced), bench.context.lease.fence
    numbers = [bench.message(each)["number"] for each in ids]

    def stamp() -> list[int]:
        nothing = WindowResult()
        assert found is not None
        opened = open_window(bench.db, fence, found.batch, finished=nothing, numbers=numbers[::-1])
        return [each.number for each in opened.stamped]

    return numbers, stamp


class TestTheClaimsOfAWindow:
    def test_are_come_by_in_the_order_of_their_numbers_wherever_they_lie(self, postgres):
        numbers, stamp = stage(Bench(postgres), 40)
        put_last_first(postgres)

        assert stamp() == sorted(numbers)

    def test_are_those_of_its_batch_alone(self, postgres):
        numbers, stamp = stage(Bench(postgres), 2)
        first = failed_message_retries.c.number == numbers[0]
        theirs = failed_message_retries.update().where(first)
        with postgres.engine.begin() as conn:
            conn.execute(theirs.values(batch_id=THEIRS))

        assert stamp() == [numbers[1]]

    def test_are_not_stamped_if_they_end_while_the_window_waits_for_them(self, postgres):
        numbers, stamp = stage(Bench(postgres), 2)
        claim = failed_message_retries.c.number == numbers[0]

        with postgres.engine.connect() as other, ThreadPoolExecutor(1) as pool:
            other.execute(failed_message_retries.delete().where(claim))
            stamping = pool.submit(stamp)
            wait_until(lambda: count_waiting(postgres) == 1, DEADLINE)
            other.commit()

            assert stamping.result(DEADLINE) == [numbers[1]]


class TestSeveralIngestersOfTheSameMessages:
    def test_store_each_message_once_and_every_attempt(self, postgres, deadlocks):
        made = [failure() for _ in range(120)]
        orders = [made, made[::-1], made[60:] + made[:60], made[1::2] + made[::2]]

        at_once(*(lambda o=order: record_all(postgres, batches_of(o, 30)) for order in orders))

        assert {row["attempts"] for row in messages(postgres).values()} == {4}
        assert len(rows(postgres, processing_attempts)) == 480
        assert ledger_entries(postgres) == {"taken_off": 480, "new": 120, "repeated": 360}
        assert deadlocks() == 0

    def test_insert_rows_in_one_order_whatever_order_they_came_in(self, postgres, deadlocks):
        """Equal message ids and other bodies: only the rows themselves can collide."""
        model = failure()
        record(postgres, model)
        some = [failure(message_id=str(number), body=b"some %d" % number) for number in range(20)]
        others = [again(each, body=b"other" + each.body) for each in some[::-1]]
        (row,) = rows(postgres, failed_messages)
        other = {"number": 0, "failure_seq": 0, "unique_message_id": unique_id(some[10])}
        held = row | other

        run_into(postgres, failed_messages, held, *(recording(postgres, b) for b in (some, others)))

        assert len(messages(postgres)) == 41
        assert deadlocks() == 0

    def test_insert_causes_in_one_order_whatever_order_they_came_in(self, postgres, deadlocks):
        some = [failure(exception_type=f"Type{number}") for number in range(20)]
        others = [failure(exception_type=f"Type{number}") for number in reversed(range(20))]
        held = {
            "fingerprint": some[10].cause.fingerprint,
            "queue": "orders",
            "destination": "orders",
            "created_at": FAILED_AT,
        }

        run_into(postgres, causes, held, *(recording(postgres, b) for b in (some, others)))

        assert len(rows(postgres, causes)) == 20
        assert len(rows(postgres, cause_groups)) == 80
        assert deadlocks() == 0

    def test_insert_groups_in_one_order_whatever_order_they_came_in(self, postgres, deadlocks):
        """Of causes that are not the same, and have the same groups."""
        types = [f"Type{number}" for number in range(20)]
        some = [failure(exception_type=each, destination="here") for each in types]
        others = [failure(exception_type=each, destination="there") for each in types[::-1]]
        group = asdict(some[10].cause.groups[0])

        run_into(postgres, failure_groups, group, *(recording(postgres, b) for b in (some, others)))

        assert len(rows(postgres, failure_groups)) == 23
        assert deadlocks() == 0

    def test_share_causes_and_groups(self, postgres, deadlocks):
        made = [
            failure(body=bytes([number % 7]), exception_type=f"Type{number % 5}")
            for number in range(120)
        ]

        at_once(
            *(
                lambda part=part: record_all(postgres, batches_of(part, 20))
                for part in (made[::3], made[1::3][::-1], made[2::3])
            )
        )

        assert len(rows(postgres, causes)) == 5
        assert len(rows(postgres, failure_groups)) == 8
        assert len(rows(postgres, cause_groups)) == 20
        assert deadlocks() == 0

    def test_keep_the_cause_of_the_newest_failure_only(self, postgres, deadlocks):
        first = [failure(exception_type="First") for _ in range(40)]
        record(postgres, *first)
        later = [
            [again(each, exception_type=f"Type{turn}") for each in first[:: -1 if turn else 1]]
            for turn in range(3)
        ]

        at_once(*(lambda batch=batch: record(postgres, *batch) for batch in later))

        shown = {row["exception_type"] for row in messages(postgres).values()}
        assert shown <= {"Type0", "Type1", "Type2"}
        assert {row["attempts"] for row in messages(postgres).values()} == {4}
        assert [rule.rule for rule in verify_store(postgres).rules if rule.broken] == []
        assert deadlocks() == 0

    def test_take_a_delivery_that_both_were_handed_for_one(self, postgres):
        """The first one's connection broke while it was storing: the other is handed it again."""
        for _ in range(10):
            delivered = failure()

            at_once(
                lambda d=delivered: record(postgres, d),
                lambda d=delivered: record(postgres, redelivered(d)),
            )

        counts = {row["attempts"] for row in messages(postgres).values()}
        entries = ledger_entries(postgres)
        assert len(messages(postgres)) == 10
        assert counts <= {1, 2}
        assert untold(postgres) == 0
        assert entries["new"] == 10

    def test_see_of_each_other_what_came_without_an_id_on_two_error_queues(self, postgres):
        """A dead-letter exchange copies a message to both at one moment."""
        for _ in range(10):
            batch = [failure(message_id=None) for _ in range(3)]
            others = [replace(each, error_queue="another") for each in reversed(batch)]

            at_once(recording(postgres, batch), recording(postgres, others))

        marked = [row["maybe_copy_of"] for row in messages(postgres).values()]
        assert len(marked) == 60
        assert sum(each is not None for each in marked) == 30

    def test_count_into_one_ledger(self, postgres):
        at_once(*(lambda: record_all(postgres, [[failure()] for _ in range(10)]) for _ in range(4)))

        assert ledger_entries(postgres) == {"taken_off": 40, "new": 40}


class TestFailuresBesideARunningRetry:
    """One processor at work, and two ingesters that bring failures and confirmations of it all."""

    @pytest.fixture
    def bench(self, postgres):
        return Bench(postgres)

    def test_lose_nothing_and_end_in_no_deadlock(self, bench, deadlocks):
        firsts = [failure(queue=QUEUE) for _ in range(150)]
        record(bench.db, *firsts)
        ended = Event()
        operations = []

        def retry_all_four_times():
            try:
                for _ in range(4):
                    operations.append(bench.ask_all())
                    work(bench)
            finally:
                ended.set()

        def fail_again():
            return bring_while(ended, bench.db, lambda: [again(each) for each in firsts[::-1]])

        def confirm():
            return bring_while(
                ended,
                bench.db,
                lambda: [confirmation(unique_id(each), succeeded_at=None) for each in firsts],
            )

        _, failed, confirmed = at_once(retry_all_four_times, fail_again, confirm)

        entries = ledger_entries(bench.db)
        assert deadlocks() == 0
        assert entries["taken_off"] == 150 + failed + confirmed
        assert entries["repeated"] == failed
        assert sum(row["attempts"] for row in messages(bench.db).values()) == 150 + failed
        assert [adds_up(bench, each) for each in operations] == [True] * 4

    def test_leave_no_claim_behind(self, bench):
        firsts = [failure(queue=QUEUE) for _ in range(100)]
        record(bench.db, *firsts)
        bench.ask_all()

        at_once(
            lambda: work(bench),
            lambda: record_all(bench.db, batches_of([again(each) for each in firsts[::-1]], 20)),
        )

        statuses = bench.statuses()
        held = {key for key in claims(bench.db) if statuses[key] != "retry_issued"}
        assert held == set()
        assert {key for key, status in statuses.items() if status == "retry_issued"} == set(
            claims(bench.db)
        )


def work(bench: Bench) -> None:
    """Take turns until nothing is left to do, and let every error through."""
    while bench.turn():
        bench.clock.advance(0.1)


def bring_while(ended: Event, db, make: Callable[[], list]) -> int:
    """Record batches of 25 until the others have ended, at most 3000; return how many."""
    brought = 0
    while not ended.is_set() and brought < 3000:
        for batch in batches_of(make(), 25):
            record(db, *batch)
            brought += len(batch)
            if ended.is_set():
                break
    return brought


def adds_up(bench, created):
    row = bench.operation(created)
    counted = row["forwarded"] + row["skipped"] + row["failed"]
    return (row["state"], counted) == ("completed", row["total"]) and row["skipped"] >= 0


def test_a_batch_that_met_another_leaves_no_half_of_itself(postgres):
    """The one that comes second is judged again from the start, with the rows of the first."""
    made = [failure() for _ in range(20)]
    fresh = [failure() for _ in range(20)]

    at_once(
        lambda: record(postgres, *made),
        lambda: record(postgres, *fresh, *made[::-1]),
        lambda: record(postgres, *made, *fresh),
    )

    stored = messages(postgres)
    assert {stored[unique_id(each)]["attempts"] for each in made} == {3}
    assert {stored[unique_id(each)]["attempts"] for each in fresh} == {2}
    assert rows(postgres, failed_message_retries) == []
