"""Messages that are due by policy are sent by the standing operation, which is never completed."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from retrier.domain.archive_operation import Act
from retrier.domain.retry_batch import BATCH_BYTES
from retrier.domain.retry_operation import Cancel, Pause, Resume, SetRate, SteeringRefusal
from retrier.domain.wire import Returned
from retrier.store.archive import Action
from retrier.store.engine.database import Database
from retrier.store.operation_requests import CreatedOperation
from retrier.store.processor_work import is_work_due, time_until_due
from retrier.store.schema import event_log, failed_messages, retry_operations
from tests.support.acting import apply_action
from tests.support.bench import QUEUE, Bench
from tests.support.factories import failure, unique_id
from tests.support.scheduling import LATER, LONG_AGO, STANDING, is_scheduled, schedule
from tests.support.script import to_queue
from tests.support.streams import fail_in_stream, look_now

WINDOW = 2
HOUR = timedelta(hours=1)
BEFORE_IT_IS_ISSUED = ["marking.moved", "staging.connected", "staging.published"]
POINTS = [
    *BEFORE_IT_IS_ISSUED,
    "staging.committed",
    "forwarding.stamped",
    "forwarding.published",
    "forwarding.recorded",
]
"""Crash points of a batch, in order."""


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database, window=WINDOW, drain_timeout=timedelta(seconds=0.3))


def standing(bench: Bench) -> dict[str, Any]:
    return bench.operation(STANDING)


def counts(bench: Bench) -> tuple[str, int, int, int, int]:
    row = standing(bench)
    return row["state"], row["total"], row["forwarded"], row["skipped"], row["failed"]


def due(bench: Bench, count: int = 3) -> list[str]:
    ids = bench.fail(count)
    schedule(bench.db, ids)
    return ids


def put_off_next_cut(bench: Bench, more: timedelta) -> timedelta:
    """Let the next cut wait longer; return how long it was to wait from the last one."""
    row = standing(bench)
    key = retry_operations.c.operation_id == row["operation_id"]
    with bench.db.engine.begin() as conn:
        conn.execute(update(retry_operations).where(key).values(next_cut=row["next_cut"] + more))
    wait: timedelta = row["next_cut"] - row["modified_at"]
    return wait


def fill_batches(bench: Bench) -> None:
    """Let each message be as large as a batch may be, so that each batch has only one."""
    with bench.db.engine.begin() as conn:
        conn.execute(update(failed_messages).values(body_size=BATCH_BYTES))


class TestWhatIsHeld:
    def hold(self, bench: Bench) -> tuple[str, str]:
        """Let the second message of a stream be due, while the first one waits for a person."""
        head, held = fail_in_stream(bench, 2)
        schedule(bench.db, [held], within=LONG_AGO)
        return head, held

    def test_is_waited_for_with_its_reason(self, bench: Bench) -> None:
        head, _ = self.hold(bench)

        bench.turn()

        row = standing(bench)
        assert (row["state"], row["passed_over"], row["next_cut"]) == ("waiting", True, None)
        assert row["reason"].startswith(f"held behind {head}")

    def test_keeps_nothing_waiting_that_is_due_soon(self, bench: Bench) -> None:
        self.hold(bench)
        schedule(bench.db, bench.fail(1), within=timedelta(seconds=0.9))

        bench.turn()

        # Else it would look again after a second.
        row = standing(bench)
        assert row["look_again_at"] - row["modified_at"] < timedelta(seconds=1)

    def test_goes_when_what_held_it_lets_go(self, bench: Bench) -> None:
        head, held = self.hold(bench)
        bench.turn()

        apply_action(bench.db, Action(act=Act.ARCHIVE, who="ada"), [head])
        look_now(bench)
        bench.turn()
        bench.work()

        assert bench.sent() == [held]
        assert (standing(bench)["passed_over"], standing(bench)["reason"]) == (False, None)


class TestADueMessage:
    def test_is_sent(self, bench: Bench) -> None:
        ids = due(bench)

        bench.work()

        assert bench.sent() == ids
        assert counts(bench) == ("waiting", 3, 3, 0, 0)

    def test_is_not_sent_before_its_time(self, bench: Bench) -> None:
        ids = bench.fail(2)
        schedule(bench.db, ids[:1], within=LATER)
        schedule(bench.db, ids[1:])

        bench.work()

        assert bench.sent() == ids[1:]
        assert is_scheduled(bench.db, ids[0])

    def test_has_no_schedule_any_more_when_its_retry_is_issued(self, bench: Bench) -> None:
        (only,) = due(bench, 1)

        bench.work()

        message = bench.message(only)
        assert (message["status"], message["disposition"], message["retry_at"]) == (
            "retry_issued",
            "manual",
            None,
        )

    def test_goes_in_the_order_of_times(self, bench: Bench) -> None:
        first, second = bench.fail(2)
        schedule(bench.db, [second], within=LONG_AGO)
        schedule(bench.db, [first])
        bench.steer(STANDING, SetRate(1))

        bench.work()

        assert bench.sent() == [second, first]

    def test_that_may_be_a_copy_of_another_waits_for_a_person(self, bench: Bench) -> None:
        first, second = due(bench, 2)
        copy = failed_messages.c.unique_message_id == second
        with bench.db.engine.begin() as conn:
            conn.execute(update(failed_messages).where(copy).values(maybe_copy_of=first))

        bench.work()

        assert bench.sent() == [first]
        assert not is_work_due(bench.db)
        # No policy schedules such a message, and `verify` would say so.
        with bench.db.engine.begin() as conn:
            conn.execute(update(failed_messages).where(copy).values(maybe_copy_of=None))

    def test_that_comes_after_all_was_sent_is_sent_too(self, bench: Bench) -> None:
        before = due(bench, 2)
        bench.work()

        after = due(bench, 2)
        bench.work()

        assert bench.sent() == [*before, *after]
        assert counts(bench) == ("waiting", 4, 4, 0, 0)

    def test_that_cannot_be_sent_is_counted_as_failed(self, bench: Bench) -> None:
        due(bench, 2)
        bench.transport.cue(Returned("NO_ROUTE"), when=to_queue(QUEUE))

        bench.work()

        assert counts(bench) == ("waiting", 2, 1, 0, 1)

    def test_that_is_sent_again_and_again_is_counted_each_time(self, bench: Bench) -> None:
        first = failure(queue=QUEUE)
        for _ in range(3):
            bench.receive(first)
            schedule(bench.db, [unique_id(first)])
            bench.work()

        assert bench.sent() == [unique_id(first)] * 3
        assert counts(bench) == ("waiting", 3, 3, 0, 0)


class TestAMessageThatChangesBeforeItIsIssued:
    @pytest.mark.parametrize("point", BEFORE_IT_IS_ISSUED)
    @pytest.mark.parametrize("act", [Act.ARCHIVE, Act.RESOLVE])
    def test_is_not_sent_and_has_no_schedule(self, bench: Bench, act: Act, point: str) -> None:
        first, second = due(bench, 2)
        action = Action(act=act, who="ada")
        bench.at(point, lambda: apply_action(bench.db, action, [first]))

        bench.work()

        assert bench.sent() == [second]
        assert bench.message(first)["retry_at"] is None
        assert counts(bench) == ("waiting", 2, 1, 1, 0)

    @pytest.mark.parametrize("point", BEFORE_IT_IS_ISSUED)
    def test_by_failing_again_waits_for_its_new_time(self, bench: Bench, point: str) -> None:
        first = failure(queue=QUEUE)
        bench.receive(first)
        schedule(bench.db)

        def fail_again() -> None:
            bench.receive(failure(queue=QUEUE, message_id=first.message_id, body=first.body))
            schedule(bench.db, within=LATER)

        bench.at(point, fail_again)

        bench.work()

        assert bench.sent() == []
        assert is_scheduled(bench.db, unique_id(first))
        assert counts(bench) == ("waiting", 1, 0, 1, 0)

    def test_by_being_archived_before_the_cut_is_not_claimed(self, bench: Bench) -> None:
        (only,) = due(bench, 1)
        apply_action(bench.db, Action(act=Act.ARCHIVE, who="ada"), [only])

        bench.work()

        assert bench.sent() == []
        assert counts(bench) == ("waiting", 0, 0, 0, 0)


class TestAPersonWhoRetriesADueMessage:
    def test_before_the_cut_sends_it_once(self, bench: Bench) -> None:
        ids = due(bench, 1)
        created = bench.ask(ids)

        bench.work()

        assert bench.sent() == ids
        assert bench.operation(created)["forwarded"] == 1
        assert counts(bench) == ("waiting", 0, 0, 0, 0)

    def test_after_the_cut_is_told_why_it_is_skipped(self, bench: Bench) -> None:
        ids = due(bench, 1)
        asked: list[CreatedOperation] = []
        bench.at("staging.connected", lambda: asked.append(bench.ask(ids)))

        bench.work()

        assert bench.sent() == ids
        row = bench.operation(asked[0])
        assert (row["state"], row["forwarded"], row["skipped"]) == ("completed", 0, 1)
        skipped = select(event_log.c.text).where(event_log.c.kind == "retry_skipped")
        (told,) = bench.rows(skipped)
        assert "issued already" in told["text"]


class TestTheOrder:
    def test_is_small_requests_before_what_is_due_before_bulk(self, bench: Bench) -> None:
        bulk = bench.fail(1)
        bench.ask_all()
        by_policy = due(bench, 1)
        small = bench.fail(1)
        bench.ask(small)

        bench.work()

        assert bench.sent() == [*small, *by_policy, *bulk]

    def test_alternates_between_what_is_due_and_bulk(self, bench: Bench) -> None:
        # Given a bulk and a standing operation of several batches each
        bulk = bench.fail(3)
        bench.ask_all()
        by_policy = due(bench, 3)
        fill_batches(bench)

        bench.work()

        turns = [key in by_policy for key in bench.sent()]
        assert turns == [True, False, True, False, True, False]
        assert sorted(bench.sent()) == sorted([*bulk, *by_policy])

    def test_gives_the_turn_to_the_bulk_that_has_waited_longest(self, bench: Bench) -> None:
        bench.transport.broker.declare("billing")
        for queue in ("orders", "billing"):
            bench.fail(2, queue=queue)
        bench.ask_all(queue="orders")
        bench.ask_all(queue="billing")
        due(bench, 4)
        fill_batches(bench)
        cut: list[str] = []

        def note(point: str) -> None:
            if point == "staging.committed":
                (batch,) = bench.batches()
                key = retry_operations.c.operation_id == batch["operation_id"]
                (row,) = bench.rows(select(retry_operations.c.selection).where(key))
                cut.append(row["selection"].get("queue", "policy"))

        bench.crash_at = note
        bench.work()

        assert cut == ["policy", "orders", "policy", "billing"] * 2


class TestThePolicysRate:
    def test_bounds_a_cut(self, bench: Bench) -> None:
        due(bench, 4)
        bench.per_second = 10

        while not bench.batches():
            bench.turn()

        assert [row["initial_size"] for row in bench.batches()] == [2]

    def test_lets_the_next_cut_wait(self, bench: Bench) -> None:
        due(bench, 4)
        bench.per_second = 10
        waits: list[timedelta] = []
        # Put off once more, as the turns below may take longer than a fifth of a second. No cut
        # comes in between: there is none while the batch is alive.
        bench.at("marking.moved", lambda: waits.append(put_off_next_cut(bench, HOUR)))

        while len(bench.sent()) < 2:
            bench.turn()
        for _ in range(3):
            bench.turn()

        assert waits == [timedelta(seconds=0.2)]
        assert len(bench.sent()) == 2
        wait = time_until_due(bench.db)
        assert wait is not None
        assert HOUR / 2 < wait <= HOUR + waits[0]

    def test_may_change_while_it_works(self, bench: Bench) -> None:
        due(bench, 4)
        bench.per_second = 5
        while len(bench.sent()) < 1:
            bench.turn()

        bench.per_second = None
        bench.work()

        assert len(bench.sent()) == 4
        assert standing(bench)["batches"] == 2

    def test_of_a_person_counts_if_it_is_lower(self, bench: Bench) -> None:
        due(bench, 4)
        bench.steer(STANDING, SetRate(5))
        bench.per_second = 1000

        while not bench.batches():
            bench.turn()

        assert [row["initial_size"] for row in bench.batches()] == [1]


class TestPausing:
    def test_stops_all_automatic_retries_and_survives_a_restart(self, bench: Bench) -> None:
        due(bench)
        bench.steer(STANDING, Pause())

        bench.restart()
        bench.work()

        assert bench.sent() == []
        assert not is_work_due(bench.db)
        assert counts(bench) == ("paused", 0, 0, 0, 0)

    @pytest.mark.parametrize("point", POINTS)
    def test_finishes_the_batch_that_is_alive_and_cuts_no_other(
        self, bench: Bench, point: str
    ) -> None:
        due(bench, 4)
        bench.steer(STANDING, SetRate(10))
        bench.at(point, lambda: bench.steer(STANDING, Pause()))

        bench.work()

        assert len(bench.sent()) == 2
        assert counts(bench)[:3] == ("paused", 2, 2)

    @pytest.mark.parametrize("is_empty", [True, False])
    def test_ends_with_resuming(self, bench: Bench, *, is_empty: bool) -> None:
        before = due(bench, 2)
        bench.work()
        bench.steer(STANDING, Pause())
        after = [] if is_empty else due(bench, 2)

        bench.steer(STANDING, Resume())
        bench.work()

        assert bench.sent() == [*before, *after]
        assert counts(bench)[0] == "waiting"

    def test_holds_up_no_retry_that_a_person_asks_for(self, bench: Bench) -> None:
        first, second = due(bench, 2)
        bench.steer(STANDING, Pause())

        bench.ask([first])
        bench.work()

        assert bench.sent() == [first]
        assert is_scheduled(bench.db, second)

    def test_keeps_nobody_awake(self, bench: Bench) -> None:
        due(bench)
        bench.steer(STANDING, Pause())
        bench.work()

        assert time_until_due(bench.db) is None


class TestCancelling:
    def test_is_refused(self, bench: Bench) -> None:
        due(bench)

        assert bench.steer(STANDING, Cancel()) is SteeringRefusal.STANDING

        bench.work()
        assert len(bench.sent()) == 3

    def test_together_with_another_order_changes_nothing(self, bench: Bench) -> None:
        due(bench)

        bench.steer(STANDING, SetRate(7), Cancel())

        assert standing(bench)["rate"] is None


class TestSleeping:
    def test_ends_when_the_first_message_is_due(self, bench: Bench) -> None:
        ids = bench.fail(2)
        schedule(bench.db, ids[:1], within=timedelta(seconds=900))
        schedule(bench.db, ids[1:], within=timedelta(seconds=600))

        wait = time_until_due(bench.db)

        assert wait is not None
        assert timedelta(seconds=590) < wait <= timedelta(seconds=600)

    def test_does_not_begin_while_one_is_due(self, bench: Bench) -> None:
        due(bench, 1)

        assert time_until_due(bench.db) == timedelta(0)
        assert is_work_due(bench.db)

    def test_is_not_disturbed_by_what_is_scheduled_for_later(self, bench: Bench) -> None:
        schedule(bench.db, bench.fail(1), within=LATER)

        bench.work()

        assert not is_work_due(bench.db)

    def test_does_not_begin_for_what_has_become_due_since_the_look(self, bench: Bench) -> None:
        ids = bench.fail(1)
        bench.at("processor.idle", lambda: schedule(bench.db, ids))

        assert bench.take_turn() == 0
