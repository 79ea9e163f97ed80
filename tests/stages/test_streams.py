"""Messages of a strict stream go one by one, in the order in which they failed first."""

from datetime import timedelta

import pytest

from retrier.domain.archive_operation import Act
from retrier.domain.failed_message import Disposition, FailedMessageStatus, Failure
from retrier.domain.streams import StreamRule
from retrier.store.engine.database import Database
from retrier.store.operation_lists import find_operation
from retrier.store.verification import verify_store
from tests.contract.store_rows import again, set_columns
from tests.support.bench import QUEUE, Bench, Killed
from tests.support.factories import FAILED_AT, failure, unique_id
from tests.support.old import settle
from tests.support.streams import (
    ORDER,
    fail_in_stream,
    look_now,
    make_strict,
    release,
)


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def sent_back(bench: Bench, head: Failure) -> str | None:
    """Let a retry of the message be sent; return its id."""
    bench.ask([unique_id(head)])
    bench.work()
    return bench.retry_id(unique_id(head))


def confirm_and_go_on(bench: Bench, unique_message_id: str) -> None:
    """Let the consumer confirm a retry, and the processor look again."""
    bench.confirm(unique_message_id)
    look_now(bench)
    bench.work()


class TestABulkRetry:
    def test_takes_the_head_and_leaves_out_the_rest(self, bench: Bench) -> None:
        first, *_ = fail_in_stream(bench, 3)
        other = bench.fail()[0]
        created = bench.ask_all()

        bench.work()

        assert bench.sent() == [first, other]
        row = bench.operation(created)
        assert (row["state"], row["passed_over"], row["left_out"]) == ("forwarding", True, 2)

    def test_says_behind_which_message_they_are_held(self, bench: Bench) -> None:
        first, *_ = fail_in_stream(bench, 2)
        created = bench.ask_all()

        bench.work()

        reason = f"held behind {first} (stream {ORDER}), whose retry was sent and has neither"
        assert str(bench.operation(created)["reason"]).startswith(reason)

    def test_sends_one_after_the_other_as_each_is_confirmed(self, bench: Bench) -> None:
        ids = fail_in_stream(bench, 4)
        created = bench.ask_all()
        bench.work()

        for each in ids:
            assert bench.sent()[-1] == each
            confirm_and_go_on(bench, each)

        assert bench.sent() == ids
        assert bench.operation(created)["state"] == "completed"
        assert bench.operation(created)["forwarded"] == 4

    def test_is_in_order_though_a_failure_number_is_not(self, bench: Bench) -> None:
        # Given that the head has failed again: its failure number is above its follower's now
        head = failure(queue=QUEUE, stream_id=ORDER)
        bench.receive(head)
        follower = bench.fail(stream_id=ORDER)[0]
        bench.receive(again(head, queue=QUEUE, time_of_failure=FAILED_AT + timedelta(hours=1)))
        make_strict(bench.db)
        bench.ask_all()

        bench.work()

        assert bench.sent() == [unique_id(head)]
        confirm_and_go_on(bench, unique_id(head))
        assert bench.sent() == [unique_id(head), follower]

    def test_takes_heads_of_many_streams_at_once(self, bench: Bench) -> None:
        first, second = fail_in_stream(bench, 2, stream_id="1")
        third, fourth = fail_in_stream(bench, 2, stream_id="2")
        bench.ask_all()
        bench.work()
        assert bench.sent() == [first, third]

        confirm_and_go_on(bench, third)

        assert bench.sent() == [first, third, fourth]
        confirm_and_go_on(bench, first)
        assert bench.sent()[-1] == second

    def test_takes_all_of_a_stream_without_a_rule_beside_a_strict_one(self, bench: Bench) -> None:
        head, _ = fail_in_stream(bench, 2, stream_id="1")
        others = bench.fail(2, stream_id="2")
        bench.ask_all()

        bench.work()

        assert bench.sent() == [head, *others]

    def test_does_not_begin_anew_while_nothing_has_changed(self, bench: Bench) -> None:
        fail_in_stream(bench, 2)
        created = bench.ask_all()
        bench.work()
        look_now(bench)
        bench.work()

        look_now(bench)
        assert not bench.turn() or bench.operation(created)["passed_over"]

        assert bench.operation(created)["passed_over"]

    def test_whose_head_fails_again_waits_for_it(self, bench: Bench) -> None:
        head = failure(queue=QUEUE, stream_id=ORDER)
        bench.receive(head)
        bench.fail(stream_id=ORDER)
        make_strict(bench.db)
        created = bench.ask_all()
        bench.work()

        # When the head fails again: the operation does not take it any more
        retry_id = bench.retry_id(unique_id(head))
        at = FAILED_AT + timedelta(hours=1)
        bench.receive(again(head, queue=QUEUE, retry_id=retry_id, time_of_failure=at))
        look_now(bench)
        bench.work()

        assert bench.sent() == [unique_id(head)]
        assert bench.operation(created)["state"] == "forwarding"
        assert "which waits for a person" in bench.operation(created)["reason"]


class TestTwoOperations:
    def test_that_want_head_and_follower_send_the_head_only(self, bench: Bench) -> None:
        first, second = fail_in_stream(bench, 2)
        bench.ask([first])
        bench.ask_all()

        bench.work()

        assert bench.sent() == [first]
        confirm_and_go_on(bench, first)
        assert bench.sent() == [first, second]

    def test_one_does_not_take_what_follows_a_message_that_the_other_has_claimed(
        self, bench: Bench
    ) -> None:
        # Given that the process dies when it has claimed the head
        first, _ = fail_in_stream(bench, 2)
        bench.ask([first])
        bench.kill_at("marking.moved")
        with pytest.raises(Killed):
            bench.work()

        bench.ask_all()
        bench.restart()
        bench.work()

        assert bench.sent() == [first]


class TestAMessageThatIsNamed:
    def test_is_skipped_if_it_is_held_and_says_so(self, bench: Bench) -> None:
        first, second = fail_in_stream(bench, 2)
        created = bench.ask([second])

        bench.work()

        found = find_operation(bench.db, created.operation_id)
        assert found is not None
        reason = f"held behind {first} (stream {ORDER}), which waits for a person"
        assert found.skipped == {second: reason}
        assert bench.sent() == []
        assert bench.operation(created)["state"] == "completed"

    def test_is_skipped_in_the_answer_already_if_it_is_held(self, bench: Bench) -> None:
        first, second = fail_in_stream(bench, 2)

        created = bench.ask([first, second])

        reason = f"held behind {first} (stream {ORDER}), which waits for a person"
        assert created.skipped == {second: reason}
        bench.work()
        found = find_operation(bench.db, created.operation_id)
        assert found is not None
        assert found.skipped == created.skipped

    def test_is_not_skipped_in_the_answer_if_it_was_released(self, bench: Bench) -> None:
        _, second = fail_in_stream(bench, 2)
        release(bench.db)

        assert bench.ask([second]).skipped == {}

    def test_goes_if_it_is_the_head(self, bench: Bench) -> None:
        first, _ = fail_in_stream(bench, 2)
        bench.ask([first])

        bench.work()

        assert bench.sent() == [first]

    def test_goes_together_with_others_of_its_stream_only_if_it_is_the_head(
        self, bench: Bench
    ) -> None:
        first, second, third = fail_in_stream(bench, 3)
        created = bench.ask([second, first, third])

        bench.work()

        assert bench.sent() == [first]
        found = find_operation(bench.db, created.operation_id)
        assert found is not None
        assert set(found.skipped) == {second, third}


class TestNothingIsHeld:
    @pytest.mark.parametrize("rule", [StreamRule.RELEASE, None])
    def test_without_a_strict_rule(self, bench: Bench, rule: StreamRule | None) -> None:
        ids = bench.fail(3, stream_id=ORDER)
        make_strict(bench.db, rule)
        bench.ask_all()

        bench.work()

        assert bench.sent() == ids

    def test_by_a_message_of_the_same_stream_in_another_queue(self, bench: Bench) -> None:
        bench.transport.broker.declare("invoices")
        one = fail_in_stream(bench, 1)
        two = fail_in_stream(bench, 1, queue="invoices")
        bench.ask_all()

        bench.work()

        assert bench.sent() + bench.sent("invoices") == one + two

    def test_by_its_own_rule_though_the_head_is_strict(self, bench: Bench) -> None:
        # Given that whose rule counts is that of the follower
        first, second = fail_in_stream(bench, 2)
        set_columns(bench.db, second, stream_rule="release")
        bench.ask_all()

        bench.work()

        assert bench.sent() == [first, second]

    @pytest.mark.parametrize("act", [Act.RESOLVE, Act.ARCHIVE])
    def test_by_a_head_that_a_person_has_dealt_with(self, bench: Bench, act: Act) -> None:
        first, second = fail_in_stream(bench, 2)
        settle(bench.db, act, [first])
        bench.ask_all()

        bench.work()

        assert bench.sent() == [second]


def test_a_dead_head_holds_and_says_what_to_do(bench: Bench) -> None:
    first, _ = fail_in_stream(bench, 2)
    set_columns(
        bench.db, first, disposition=Disposition.DEAD, disposition_reason="it never succeeds"
    )
    created = bench.ask_all()

    bench.work()

    assert bench.sent() == []
    reason = bench.operation(created)["reason"]
    assert reason.endswith("which is dead: archive, resolve or revive it, or release the stream")


class TestAHeadThatLosesItsHeaders:
    def test_stays_in_its_stream(self, bench: Bench) -> None:
        head = failure(queue=QUEUE, stream_id=ORDER)
        bench.receive(head)
        bench.fail(stream_id=ORDER)
        bench.receive(again(head, queue=QUEUE, time_of_failure=FAILED_AT + timedelta(hours=1)))
        make_strict(bench.db)

        bench.ask_all()
        bench.work()

        assert bench.message(unique_id(head))["stream_id"] == ORDER
        assert bench.sent() == [unique_id(head)]

    def test_stays_in_the_stream_of_its_queue_though_a_redirect_sent_it_elsewhere(
        self, bench: Bench
    ) -> None:
        head = failure(queue=QUEUE, stream_id=ORDER)
        bench.receive(head)
        retried = {"queue": "orders.new", "retry_id": sent_back(bench, head)}

        bench.receive(again(head, stream_id=ORDER, **retried))
        bench.receive(again(head, **retried))

        row = bench.message(unique_id(head))
        assert (row["attempts"], row["stream_queue"]) == (3, QUEUE)

    def test_changes_its_stream_if_the_new_failure_names_another(self, bench: Bench) -> None:
        head = failure(queue=QUEUE, stream_id=ORDER)
        bench.receive(head)
        retry_id = sent_back(bench, head)
        bench.receive(again(head, queue="invoices", stream_id="7", retry_id=retry_id))

        row = bench.message(unique_id(head))
        assert (row["stream_id"], row["stream_queue"]) == ("7", "invoices")

    def test_may_join_a_stream_later(self, bench: Bench) -> None:
        head = failure(queue=QUEUE)
        bench.receive(head)
        at = FAILED_AT + timedelta(hours=1)
        bench.receive(again(head, queue=QUEUE, stream_id=ORDER, time_of_failure=at))

        row = bench.message(unique_id(head))
        assert (row["stream_id"], row["stream_queue"]) == (ORDER, QUEUE)


class TestReleasing:
    def test_lets_go_all_that_is_held_now(self, bench: Bench) -> None:
        first, second, third = fail_in_stream(bench, 3)
        bench.ask_all()
        bench.work()

        done = release(bench.db)
        bench.work()

        assert done.ids == (second, third)
        assert bench.sent() == [first, second, third]

    def test_lets_go_only_what_is_named(self, bench: Bench) -> None:
        first, second, third = fail_in_stream(bench, 3)
        created = bench.ask_all()
        bench.work()

        done = release(bench.db, third)
        bench.work()

        assert done.ids == (third,)
        assert bench.sent() == [first, third]
        assert bench.statuses()[second] == FailedMessageStatus.UNRESOLVED
        assert bench.operation(created)["passed_over"]

    def test_does_not_mark_what_nothing_holds(self, bench: Bench) -> None:
        first, _ = fail_in_stream(bench, 2)

        done = release(bench.db, first)

        assert (done.ids, done.not_held) == ((), (first,))
        assert not bench.message(first)["released"]

    def test_holds_what_comes_later(self, bench: Bench) -> None:
        fail_in_stream(bench, 2)
        release(bench.db)
        later = fail_in_stream(bench, 1)[0]
        bench.ask_all()

        bench.work()

        assert later not in bench.sent()

    def test_ends_when_it_fails_again(self, bench: Bench) -> None:
        head, follower = (
            failure(queue=QUEUE, stream_id=ORDER),
            failure(queue=QUEUE, stream_id=ORDER),
        )
        bench.receive(head, follower)
        make_strict(bench.db)
        release(bench.db)
        at = FAILED_AT + timedelta(hours=1)

        bench.receive(again(follower, queue=QUEUE, stream_id=ORDER, time_of_failure=at))
        make_strict(bench.db)
        bench.ask_all()
        bench.work()

        assert bench.sent() == [unique_id(head)]
        assert not bench.message(unique_id(follower))["released"]


def test_what_is_stored_of_streams_adds_up(bench: Bench) -> None:
    fail_in_stream(bench, 3)
    bench.ask_all()
    bench.work()
    release(bench.db)
    bench.work()

    assert [rule.rule for rule in verify_store(bench.db).rules if rule.broken] == []


@pytest.mark.parametrize(
    "point", ["marking.opened", "marking.claimed", "staging.committed", "forwarding.published"]
)
def test_a_process_that_dies_lets_no_follower_go(bench: Bench, point: str) -> None:
    ids = fail_in_stream(bench, 3)
    bench.ask_all()
    bench.kill_at(point)
    try:
        bench.work()
    except Killed:
        bench.restart()
    bench.work()

    # At most the one that was in doubt comes twice, and nothing overtakes it
    assert set(bench.sent()) == {ids[0]}
    confirm_and_go_on(bench, ids[0])
    assert list(dict.fromkeys(bench.sent())) == ids[:2]
