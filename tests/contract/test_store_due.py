"""The standing operation in the database: made once by whoever schedules first, and found when due."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete, event, func, select, update

from retrier.domain.archive_operation import Act
from retrier.domain.retry_operation import STANDING_OPERATION, RetryOperation, RetryType
from retrier.domain.schedule import Schedule
from retrier.store.cuts import look
from retrier.store.engine.database import Database
from retrier.store.engine.transaction import Transaction
from retrier.store.judging import ensure_standing
from retrier.store.marking import MarkedBatch, OpenedBatch, claim_messages, cut_batch
from retrier.store.message_lists import PageRequest
from retrier.store.operation_lists import find_operation, list_operations
from retrier.store.processor_work import find_next, is_work_due, time_until_due
from retrier.store.retention import are_old_operations
from retrier.store.retry_ends import CutEnd
from retrier.store.schedule import FIRST, NEXT_DUE, LeftOut, find_in_turn, in_turn
from retrier.store.schema import failed_message_retries, failed_messages, retry_operations
from retrier.store.verification import verify_store
from retrier.store.verification_rules import STANDING_RULES
from retrier.store.wait_reasons import find_schedule
from tests.contract.test_store_dead_messages import act
from tests.contract.test_store_requests import RolledBack, listening
from tests.support.bench import Bench, Killed
from tests.support.databases import empty
from tests.support.halting import DEADLINE, halted
from tests.support.scheduling import LATER, LONG_AGO, NOW, schedule
from tests.support.waiting import wait_until

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
NOBODY = "00000000-0000-4000-8000-000000000000"
ADDED = "INSERT INTO retry_operations"


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


@pytest.fixture
def postgres(shared_postgres: Database) -> Database:
    """Give the PostgreSQL database of the run, empty."""
    empty(shared_postgres)
    return shared_postgres


def standing(db: Database) -> list[dict[str, Any]]:
    query = select(retry_operations).where(retry_operations.c.retry_type == RetryType.BY_POLICY)
    return db.read(lambda tx: [dict(row) for row in tx.execute(query).mappings()])


def ensure(db: Database, within: timedelta) -> None:
    db.transact(lambda tx: ensure_standing(tx, tx.now + within))


@contextmanager
def counting(db: Database) -> Iterator[list[str]]:
    """Give the statements that are executed meanwhile."""
    said: list[str] = []

    def listen(_conn: object, _cursor: object, statement: str, *_rest: object) -> None:
        said.append(statement)

    event.listen(db.engine, "after_cursor_execute", listen)
    yield said
    event.remove(db.engine, "after_cursor_execute", listen)


class TestTheStandingOperation:
    def test_is_there_with_the_first_message_that_is_scheduled(self, bench: Bench) -> None:
        schedule(bench.db, bench.fail(1), within=LATER)

        (row,) = standing(bench.db)
        assert (row["operation_id"], row["state"], row["total"]) == (
            STANDING_OPERATION,
            "waiting",
            0,
        )

    def test_is_not_there_without_any(self, bench: Bench) -> None:
        bench.fail(1)
        bench.work()

        assert standing(bench.db) == []

    def test_is_the_only_one(self, bench: Bench) -> None:
        schedule(bench.db, bench.fail(1))
        before = standing(bench.db)

        schedule(bench.db, bench.fail(1))

        assert standing(bench.db) == before

    def test_costs_one_query_once_it_is_there(self, bench: Bench) -> None:
        schedule(bench.db, bench.fail(1), within=MINUTE)
        schedule(bench.db, bench.fail(1), within=LATER)

        def ensure_and_count(tx: Transaction) -> int:
            at = tx.now + LATER
            with counting(bench.db) as said:
                ensure_standing(tx, at)
            return len(said)

        assert bench.db.transact(ensure_and_count) == 1

    def test_is_made_by_the_processor_if_it_is_missing(self, bench: Bench) -> None:
        ids = bench.fail(1)
        schedule(bench.db, ids)
        with bench.db.engine.begin() as conn:
            conn.execute(delete(retry_operations))

        bench.work()

        assert bench.sent() == ids

    def test_is_not_made_by_the_processor_for_nothing(self, bench: Bench) -> None:
        bench.work()

        assert standing(bench.db) == []

    def test_is_never_old(self, bench: Bench) -> None:
        schedule(bench.db, bench.fail(1))
        bench.work()

        def count_old(tx: Transaction) -> int:
            old = are_old_operations(timedelta(days=-1), tx.now)
            return int(tx.execute(select(func.count()).where(*old)).scalar_one())

        assert bench.db.read(count_old) == 0

    def test_counts_beyond_32_bits(self, bench: Bench) -> None:
        schedule(bench.db, bench.fail(1))
        with bench.db.engine.begin() as conn:
            conn.execute(update(retry_operations).values(total=2**31, forwarded=2**31))

        bench.work()

        assert [row["forwarded"] for row in standing(bench.db)] == [2**31 + 1]


@pytest.mark.postgres
class TestTwoProcessesThatScheduleTheFirst:
    def test_wait_for_nothing_of_each_other(
        self, postgres: Database, slow: ThreadPoolExecutor
    ) -> None:
        bench = Bench(postgres)
        first, second = bench.fail(2)

        with halted(postgres, ADDED) as (reached, go_on):
            slower = slow.submit(schedule, postgres, [first])
            assert reached.wait(DEADLINE)
            # Given that it is added and not committed: the other one commits.
            schedule(postgres, [second])
            go_on.set()
            slower.result(DEADLINE)

        assert len(standing(postgres)) == 1

    def test_lose_nothing_if_the_one_that_adds_it_is_rolled_back(
        self, postgres: Database, slow: ThreadPoolExecutor
    ) -> None:
        bench = Bench(postgres)
        (only,) = bench.fail(1)

        def add_in_vain(tx: Transaction) -> None:
            ensure_standing(tx, tx.now)
            raise RolledBack

        with halted(postgres, ADDED) as (reached, go_on):
            slower = slow.submit(postgres.transact, add_in_vain)
            assert reached.wait(DEADLINE)
            schedule(postgres, [only])
            go_on.set()
            with pytest.raises(RolledBack):
                slower.result(DEADLINE)
        assert standing(postgres) == []

        bench.work()

        assert bench.sent() == [only]


@pytest.mark.postgres
class TestTheProcessor:
    def test_is_woken_by_what_is_due_earlier(self, postgres: Database) -> None:
        bench = Bench(postgres)
        schedule(postgres, bench.fail(1), within=LATER)

        with listening(postgres) as listener:
            schedule(postgres, bench.fail(1), within=MINUTE)

            wait_until(lambda: listener.heard == 2, 30, "it hears")

    def test_is_not_woken_by_what_is_due_later(self, postgres: Database) -> None:
        bench = Bench(postgres)
        schedule(postgres, bench.fail(1), within=MINUTE)
        later, earlier = bench.fail(2)

        with listening(postgres) as listener:
            schedule(postgres, [later], within=LATER)
            schedule(postgres, [earlier], within=NOW)

            wait_until(lambda: listener.heard == 2, 30, "it hears of the earlier one")
        assert listener.heard == 2

    def test_is_woken_by_what_comes_back_from_the_archive_scheduled(
        self, postgres: Database
    ) -> None:
        bench = Bench(postgres)
        keys = bench.fail(1)
        schedule(postgres, keys, within=MINUTE)
        act(bench, Act.ARCHIVE, *keys)

        with listening(postgres) as listener:
            act(bench, Act.UNARCHIVE, *keys)

            wait_until(lambda: listener.heard == 2, 30, "it hears")

    def test_is_woken_though_something_is_overdue(self, postgres: Database) -> None:
        bench = Bench(postgres)
        schedule(postgres, bench.fail(1), within=LONG_AGO)

        with listening(postgres) as listener:
            schedule(postgres, bench.fail(1), within=MINUTE)

            wait_until(lambda: listener.heard == 2, 30, "it hears")


def test_what_falls_due_during_the_look_is_waited_for(
    bench: Bench, slow: ThreadPoolExecutor
) -> None:
    # Given a message that is not due when the processor looks for work, and is a moment later
    (only,) = bench.fail(1)
    schedule(bench.db, [only], within=timedelta(milliseconds=200))
    at = bench.message(only)["retry_at"]

    with halted(bench.db, "retry_operation_canaries") as (reached, go_on):
        looking = slow.submit(time_until_due, bench.db)
        assert reached.wait(DEADLINE)
        wait_until(lambda: bench.db.read(lambda tx: tx.now) > at, DEADLINE, "it is due")
        go_on.set()
        found = looking.result(DEADLINE)

    # Then it does not sleep until somebody wakes it
    assert found is not None


class TestWhatSomethingElseHolds:
    @staticmethod
    def hold(_tx: Transaction, _operation: RetryOperation) -> LeftOut:
        return LeftOut(condition=failed_messages.c.number > 0, reason="held")

    def test_stays_due_and_is_looked_at_again_after_a_second(self, bench: Bench) -> None:
        schedule(bench.db, bench.fail(1))
        fence = bench.context.lease.fence

        opened = cut_batch(bench.db, fence, NOBODY, self.hold)
        if isinstance(opened, OpenedBatch):
            opened = claim_messages(bench.db, fence, opened, self.hold)

        assert isinstance(opened, MarkedBatch)
        assert opened.end is CutEnd.NOTHING_DUE
        (row,) = standing(bench.db)
        assert timedelta(0) < row["look_again_at"] - row["modified_at"] <= timedelta(seconds=1)
        assert (row["passed_over"], row["reason"]) == (True, "held")
        # That second may be over by now, so what follows is asked with an hour in its place.
        with bench.db.engine.begin() as conn:
            conn.execute(update(retry_operations).values(look_again_at=row["modified_at"] + HOUR))
        assert cut_batch(bench.db, fence, NOBODY, self.hold) is None
        wait = time_until_due(bench.db)
        assert wait is not None
        assert timedelta(0) < wait <= HOUR

    def test_is_left_out(self, bench: Bench) -> None:
        first, second = bench.fail(2)
        schedule(bench.db)
        held = failed_messages.c.unique_message_id == first

        def look_at_it(tx: Transaction) -> set[int]:
            operation = find_next(tx)
            assert operation is not None
            return set(look(tx, operation, LeftOut(condition=held, reason="held")).eligible)

        assert bench.db.read(look_at_it) == {bench.message(second)["number"]}


class TestTheSchedule:
    def test_counts_what_is_scheduled_and_says_what_is_next(self, bench: Bench) -> None:
        first, second, _ = bench.fail(3)
        schedule(bench.db, [first], within=LATER)
        schedule(bench.db, [second], within=MINUTE)

        found = bench.db.read(find_schedule)

        at = bench.message(second)["retry_at"]
        assert found == Schedule(scheduled=2, next_at=at)

    def test_is_shown_with_the_operation(self, bench: Bench) -> None:
        (only,) = bench.fail(1)
        schedule(bench.db, [only], within=LATER)

        found = find_operation(bench.db, STANDING_OPERATION)

        assert found is not None
        assert found.schedule == Schedule(scheduled=1, next_at=bench.message(only)["retry_at"])

    def test_is_listed_before_everything_newer(self, bench: Bench) -> None:
        schedule(bench.db, bench.fail(1), within=LATER)
        created = bench.ask_all()

        found = list_operations(bench.db, PageRequest(number=1, size=10))

        ids = [each.operation_id for each in found.page.items]
        assert ids == [STANDING_OPERATION, created.operation_id]
        assert found.schedule is not None

    def test_is_not_looked_for_where_it_is_not_shown(self, bench: Bench) -> None:
        bench.fail(1)
        bench.ask_all()

        assert list_operations(bench.db, PageRequest(number=1, size=10)).schedule is None


BENT: dict[str, Callable[[Bench], Any]] = {
    "the standing operation is the only one by policy, and is neither over nor cancelled": (
        lambda _bench: update(retry_operations).values(cancel_asked=True)
    ),
    "while nothing is due, the counts of the standing operation add up to its total": (
        lambda _bench: update(retry_operations).values(total=7)
    ),
}


class TestARule:
    def broken(self, bench: Bench) -> list[str]:
        return [each.rule for each in verify_store(bench.db).rules if each.broken]

    @pytest.mark.parametrize("rule", BENT)
    def test_is_broken_by_what_is_bent(self, bench: Bench, rule: str) -> None:
        schedule(bench.db, bench.fail(1))
        bench.work()

        with bench.db.engine.begin() as conn:
            conn.execute(BENT[rule](bench))

        assert self.broken(bench) == [rule]

    def test_finds_a_claim_by_policy_of_what_is_not_scheduled(self, bench: Bench) -> None:
        schedule(bench.db, bench.fail(1))
        bench.kill_at("marking.moved")
        with pytest.raises(Killed):
            bench.work()
        assert self.broken(bench) == []

        with bench.db.engine.begin() as conn:
            conn.execute(update(failed_messages).values(disposition="manual", retry_at=None))

        assert self.broken(bench) == [
            "what the standing operation has claimed and not issued yet is scheduled"
        ]

    def test_is_tried_here_for_each(self) -> None:
        tried = {*BENT, "what the standing operation has claimed and not issued yet is scheduled"}

        assert set(STANDING_RULES) == tried


class TestFindingWhatIsDue:
    """However many are scheduled, only the first of the index are read."""

    @pytest.mark.parametrize("query", ["cut", "first"])
    def test_reads_the_index_of_what_is_scheduled(self, bench: Bench, query: str) -> None:
        schedule(bench.db, bench.fail(50), within=LATER)
        statement = {"cut": NEXT_DUE, "first": select(FIRST)}[query]

        def explain(tx: Transaction) -> str:
            tx.sql.force_index_order(tx.conn)
            known = {"now": tx.now, "most": 10} if query == "cut" else {}
            return explained(tx, statement, known)

        assert "ix_failed_messages_due" in bench.db.transact(explain)


class TestTurns:
    """Rules and queues take turns in what is due."""

    @staticmethod
    def found(db: Database, most: int, left_out: LeftOut | None = None) -> list[int]:
        return db.read(lambda tx: [one.number for one in find_in_turn(tx, most, left_out)])

    @staticmethod
    def due(bench: Bench, count: int, queue: str, within: timedelta, **more: Any) -> list[int]:
        ids = bench.fail(count, queue=queue, **more)
        schedule(bench.db, ids, within=within)
        return [bench.message(each)["number"] for each in ids]

    def test_let_a_queue_with_little_go_beside_one_with_much(self, bench: Bench) -> None:
        self.due(bench, 30, "much", LONG_AGO)
        little = self.due(bench, 3, "little", NOW)

        assert set(little) < set(self.found(bench.db, 8))

    def test_keep_the_order_of_times_in_a_queue(self, bench: Bench) -> None:
        last = self.due(bench, 1, "shop", NOW, exception_type="Shop.Late")
        first = self.due(bench, 12, "shop", LONG_AGO)
        self.due(bench, 12, "other", LONG_AGO)

        found = self.found(bench.db, 13)

        assert [each for each in found if each in first] == first[: len(set(found) & set(first))]
        assert last[0] not in found

    def test_fill_the_cut_with_what_is_due_for_longest(self, bench: Bench) -> None:
        much = self.due(bench, 30, "much", LONG_AGO)
        little = self.due(bench, 1, "little", NOW)

        assert sorted(self.found(bench.db, 20)) == sorted([*much[:19], *little])

    def test_leave_out_what_is_held(self, bench: Bench) -> None:
        held = self.due(bench, 3, "much", LONG_AGO)
        little = self.due(bench, 1, "little", NOW)
        what = LeftOut(condition=failed_messages.c.number.in_(held), reason="held")

        assert self.found(bench.db, 20, what) == little

    def test_leave_out_what_is_not_due(self, bench: Bench) -> None:
        self.due(bench, 3, "much", LATER)

        assert self.found(bench.db, 20) == []

    def test_are_given_to_all_and_still_what_has_none_goes(self, bench: Bench) -> None:
        alone = self.due(bench, 1, "alone", LONG_AGO)
        with bench.db.engine.begin() as conn:
            conn.execute(update(failed_messages).values(policy=None))

        assert self.found(bench.db, 20) == alone

    def test_read_the_index_of_turns(self, bench: Bench) -> None:
        self.due(bench, 30, "much", LONG_AGO)
        self.due(bench, 3, "little", NOW)

        def explain(tx: Transaction) -> str:
            tx.sql.force_index_order(tx.conn)
            return explained(tx, in_turn(tx.sql), {"now": tx.now, "most": 10})

        plan = bench.db.transact(explain)

        assert plan.count("ix_failed_messages_turns") == LOOKS
        assert "ix_failed_messages_due" not in plan


LOOKS = 4
"""At the first pair of a rule and a cause, at the next of a rule, at the next rule, at messages."""


def explained(tx: Transaction, statement: Any, known: dict[str, Any]) -> str:
    """Return the plan of a statement."""
    word = "EXPLAIN" if tx.sql.marks_at_once else "EXPLAIN QUERY PLAN"
    engine = tx.conn.engine

    def explain(_c: object, _cursor: object, said: str, given: Any, *_rest: object) -> Any:
        return f"{word} {said}", given

    event.listen(engine, "before_cursor_execute", explain, retval=True)
    try:
        found = tx.execute(statement, known).cursor
        assert found is not None
        return "\n".join(" ".join(map(str, row)) for row in found.fetchall())
    finally:
        event.remove(engine, "before_cursor_execute", explain)


def test_a_message_with_a_claim_is_not_due(bench: Bench) -> None:
    schedule(bench.db, bench.fail(1))
    bench.kill_at("staging.connected")
    with pytest.raises(Killed):
        bench.work()

    claimed = select(func.count()).select_from(failed_message_retries)
    assert bench.db.read(lambda tx: tx.execute(claimed).scalar_one()) == 1
    assert bench.db.read(find_schedule) == Schedule(scheduled=1, next_at=None)


def test_nothing_is_due_without_anything_scheduled(bench: Bench) -> None:
    bench.fail(2)

    assert not is_work_due(bench.db)
