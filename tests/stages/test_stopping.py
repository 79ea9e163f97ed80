"""Operations that people pause, resume and cancel, at every step of a retry."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from retrier.domain.retry_operation import Cancel, Pause, Resume, RetryTerms, SteeringRefusal
from retrier.store.engine.database import Database
from retrier.store.forwarding import back_off_batch
from retrier.store.operation_requests import CreatedOperation
from retrier.store.processor_work import is_work_due
from retrier.store.schema import retry_operation_messages
from tests.support.bench import STAGING, Bench, Killed

WINDOW = 2
COUNT = 5

POINTS = ["marking.moved", "staging.connected", "staging.published", "staging.committed"]
"""Crash points before the first message is stamped."""


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database, window=WINDOW, drain_timeout=timedelta(seconds=0.3))


def counts(bench: Bench, created: CreatedOperation) -> tuple[str, int, int, int]:
    row = bench.operation(created)
    return row["state"], row["forwarded"], row["skipped"], row["failed"]


def numbers(bench: Bench) -> dict[str, int]:
    return {key: bench.message(key)["failure_seq"] for key in bench.statuses()}


class TestAPausedOperation:
    def test_is_cut_no_more(self, bench: Bench) -> None:
        bench.fail(COUNT)
        created = bench.ask_all()

        bench.steer(created, Pause())
        bench.work()

        assert (bench.sent(), bench.batches()) == ([], [])
        assert counts(bench, created) == ("paused", 0, 0, 0)

    @pytest.mark.parametrize("point", [*POINTS, "forwarding.stamped", "forwarding.published"])
    def test_finishes_the_batch_that_is_alive_and_no_other(self, bench: Bench, point: str) -> None:
        # Given an operation of two batches
        ids = bench.fail(COUNT)
        created = bench.ask_all(RetryTerms(rate=10))
        bench.at(point, lambda: bench.steer(created, Pause()))

        bench.work()

        assert bench.sent() == ids[:2]
        assert counts(bench, created) == ("paused", 2, 0, 0)

    def test_goes_on_where_it_stood_when_it_is_resumed(self, bench: Bench) -> None:
        ids = bench.fail(COUNT)
        created = bench.ask_all(RetryTerms(rate=10))
        bench.at("staging.committed", lambda: bench.steer(created, Pause()))
        bench.work()

        bench.steer(created, Resume())
        assert bench.operation(created)["state"] == "forwarding"
        bench.work()

        assert bench.sent() == ids
        assert counts(bench, created) == ("completed", COUNT, 0, 0)

    def test_is_waiting_again_if_nothing_was_cut_off_it(self, bench: Bench) -> None:
        bench.fail()
        created = bench.ask_all()

        bench.steer(created, Pause())
        bench.steer(created, Resume())

        assert bench.operation(created)["state"] == "waiting"

    def test_is_being_prepared_again_if_its_first_batch_is(self, bench: Bench) -> None:
        bench.fail()
        created = bench.ask_all()
        bench.kill_at("marking.moved")
        with pytest.raises(Killed):
            bench.work()

        bench.steer(created, Pause())
        bench.steer(created, Resume())

        assert bench.operation(created)["state"] == "preparing"

    def test_is_still_paused_after_a_restart(self, bench: Bench) -> None:
        bench.fail(COUNT)
        created = bench.ask_all()
        bench.steer(created, Pause())

        bench.restart()
        bench.work()

        assert counts(bench, created) == ("paused", 0, 0, 0)

    def test_may_be_paused_once_more_and_nothing_changes(self, bench: Bench) -> None:
        created = bench.ask_all()
        bench.steer(created, Pause())
        before = bench.operation(created)

        bench.steer(created, Pause())

        assert bench.operation(created) == before

    def test_lets_other_operations_go_on(self, bench: Bench) -> None:
        first, second = bench.fail(2)
        created = bench.ask([first])
        bench.steer(created, Pause())

        bench.ask([second])
        bench.work()

        assert bench.sent() == [second]


class TestACancelledOperation:
    def test_ends_at_once_if_nothing_was_cut_off_it(self, bench: Bench) -> None:
        bench.fail(COUNT)
        created = bench.ask_all()

        bench.steer(created, Cancel())
        bench.work()

        assert counts(bench, created) == ("cancelled", 0, COUNT, 0)

    def test_ends_also_if_it_was_paused(self, bench: Bench) -> None:
        bench.fail(COUNT)
        created = bench.ask_all()
        bench.steer(created, Pause())

        bench.steer(created, Cancel())
        bench.work()

        assert counts(bench, created) == ("cancelled", 0, COUNT, 0)

    @pytest.mark.parametrize("killed", [False, True], ids=["goes on", "killed"])
    @pytest.mark.parametrize("point", POINTS)
    def test_sends_nothing_if_nothing_is_stamped(
        self, bench: Bench, point: str, *, killed: bool
    ) -> None:
        ids = bench.fail(COUNT)
        created = bench.ask_all()
        cancel_at(bench, created, point, killed=killed)

        bench.work()

        assert bench.sent() == []
        assert counts(bench, created) == ("cancelled", 0, COUNT, 0)
        assert (bench.claims(), bench.batches(), bench.pointer()) == ({}, [], None)
        assert bench.statuses() == dict.fromkeys(ids, "unresolved")

    @pytest.mark.parametrize("killed", [False, True], ids=["goes on", "killed"])
    def test_finishes_what_is_stamped_and_nothing_else(self, bench: Bench, *, killed: bool) -> None:
        ids = bench.fail(COUNT)
        created = bench.ask_all()
        cancel_at(bench, created, "forwarding.stamped", killed=killed)

        bench.work()

        assert bench.sent() == ids[:WINDOW]
        assert counts(bench, created) == ("cancelled", WINDOW, COUNT - WINDOW, 0)
        assert sorted(bench.claims()) == sorted(ids[:WINDOW])
        # and nobody waits for copies that were acked unsent
        assert "batch.moved" not in bench.told.names

    def test_keeps_what_may_have_been_sent_when_its_rest_was_moved(self, bench: Bench) -> None:
        # Given a batch that dies with a window in doubt, and a staging queue that is emptied
        ids = bench.fail(COUNT)
        created = bench.ask_all()
        bench.kill_at("forwarding.published")
        with pytest.raises(Killed):
            bench.work()
        bench.restart()
        bench.transport.broker.delete(STAGING)
        bench.kill_at("forwarding.moved")
        with pytest.raises(Killed):
            bench.work()
        doubt = bench.in_doubt()
        bench.restart()

        # When it is cancelled
        bench.steer(created, Cancel())
        bench.work()

        # Then only what was in doubt is sent once more, and the rest is free
        assert doubt == set(ids[:WINDOW])
        assert bench.sent() == [*ids[:WINDOW], *ids[:WINDOW]]
        assert counts(bench, created) == ("cancelled", WINDOW, COUNT - WINDOW, 0)

    def test_gives_what_was_staged_a_new_failure_number(self, bench: Bench) -> None:
        bench.fail(COUNT)
        before = numbers(bench)
        created = bench.ask_all()
        cancel_at(bench, created, "staging.committed", killed=True)

        bench.work()

        after = numbers(bench)
        assert min(after.values()) > max(before.values())

    def test_leaves_what_was_not_staged_its_failure_number(self, bench: Bench) -> None:
        bench.fail(COUNT)
        before = numbers(bench)
        created = bench.ask_all()
        cancel_at(bench, created, "marking.moved", killed=True)

        bench.work()

        assert numbers(bench) == before

    def test_can_be_asked_for_anew_and_each_goes_once(self, bench: Bench) -> None:
        ids = bench.fail(COUNT)
        created = bench.ask_all()
        cancel_at(bench, created, "forwarding.stamped", killed=False)
        bench.work()

        bench.ask_all()
        bench.work()

        assert sorted(bench.sent()) == sorted(ids)

    def test_ends_though_the_broker_is_away(self, bench: Bench) -> None:
        # Given a batch in Staging that waits for the broker
        bench.fail(COUNT)
        created = bench.ask_all()
        bench.transport.go_down()
        bench.take_turn()
        bench.take_turn()
        assert [each["status"] for each in bench.batches()] == ["staging"]

        bench.steer(created, Cancel())
        for _ in range(3):
            bench.take_turn()

        assert counts(bench, created) == ("cancelled", 0, COUNT, 0)
        assert (bench.batches(), bench.claims()) == ([], {})

    def test_is_due_for_a_process_that_was_not_woken(self, bench: Bench) -> None:
        # Given a batch in Staging that backs off, and a request to another process
        bench.fail(COUNT)
        created = bench.ask_all()
        bench.turn()
        (batch,) = bench.batches()
        hour = {"wait": timedelta(hours=1), "reason": "it is to wait"}
        back_off_batch(bench.db, bench.context.lease.fence, batch["batch_id"], **hour)
        assert not is_work_due(bench.db)

        bench.steer(created, Cancel())

        assert is_work_due(bench.db)

    def test_may_be_cancelled_once_more(self, bench: Bench) -> None:
        created = bench.ask_all()
        bench.steer(created, Cancel())
        bench.work()
        before = bench.operation(created)

        bench.steer(created, Cancel())

        assert bench.operation(created) == before

    def test_says_of_each_named_message_why_it_was_not_sent(self, bench: Bench) -> None:
        ids = bench.fail(2)
        created = bench.ask(ids)
        cancel_at(bench, created, "staging.committed", killed=False)

        bench.work()

        why = "its operation was cancelled before it was sent"
        rows = bench.rows(select(retry_operation_messages))
        assert [row["skipped_because"] for row in rows] == [why, why]

    def test_takes_no_order_any_more(self, bench: Bench) -> None:
        created = bench.ask_all()
        bench.steer(created, Cancel())

        assert bench.steer(created, Pause()) is SteeringRefusal.CANCELLED
        assert bench.steer(created, Resume()) is SteeringRefusal.CANCELLED


def cancel_at(bench: Bench, created: CreatedOperation, point: str, *, killed: bool) -> None:
    """Let a person cancel when the process comes to a point; it dies there, or goes on."""

    def cancel() -> None:
        bench.steer(created, Cancel())
        if killed:
            raise Killed

    bench.at(point, cancel)
    if killed:
        with pytest.raises(Killed):
            bench.work()
        bench.restart()


def test_a_completed_operation_takes_no_order(bench: Bench) -> None:
    bench.fail()
    created = bench.ask_all()
    bench.work()

    orders = [Pause(), Resume(), Cancel()]

    refused = [bench.steer(created, order) for order in orders]
    assert refused == [SteeringRefusal.COMPLETED] * 3
