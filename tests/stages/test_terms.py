"""Operations that were asked for with terms: a limit, a destination, a rate, a canary, a time."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete, select, update

from retrier.domain.archive_operation import Act
from retrier.domain.failed_message import Disposition
from retrier.domain.retry_operation import Canary, Cancel, Pause, Resume, RetryTerms, SetRate
from retrier.domain.selection import WantedDisposition
from retrier.store.archive import Action
from retrier.store.engine.database import Database
from retrier.store.operation_lists import find_operation
from retrier.store.operation_requests import CreatedOperation
from retrier.store.redirects import create_redirect
from retrier.store.schema import (
    ended_retries,
    error_queue_reads,
    failed_messages,
    retry_operation_canaries,
)
from tests.support.acting import apply_action
from tests.support.bench import QUEUE, Bench
from tests.support.factories import FAILED_AT, failure, unique_id
from tests.support.stretched_waits import stretch_wait

OTHER = "orders.repair"
LATER = FAILED_AT + timedelta(days=1)


@pytest.fixture
def bench(database: Database) -> Bench:
    made = Bench(database)
    made.transport.broker.declare(OTHER)
    return made


def counts(bench: Bench, created: CreatedOperation) -> tuple[str, int, int, int]:
    row = bench.operation(created)
    return row["state"], row["forwarded"], row["skipped"], row["failed"]


def archive(bench: Bench, *ids: str) -> None:
    apply_action(bench.db, Action(act=Act.ARCHIVE, who="ada"), ids)


def fail_again(bench: Bench, ids: list[str]) -> None:
    """Let the consumers fail once more with what was sent to them."""
    for key in ids:
        message = bench.message(key)
        again = failure(
            queue=QUEUE,
            message_id=message["message_id"],
            stamped_id=key,
            retry_id=message["last_retry_id"],
        )
        assert unique_id(again) == key
        bench.receive(again)


class TestALimit:
    def test_sends_the_first_by_their_failure_numbers(self, bench: Bench) -> None:
        ids = bench.fail(5)

        created = bench.ask_all(RetryTerms(limit=3))
        bench.work()

        assert bench.sent() == ids[:3]
        assert created.total == 3
        assert counts(bench, created) == ("completed", 3, 0, 0)

    def test_above_what_there_is_changes_nothing(self, bench: Bench) -> None:
        bench.fail(2)

        created = bench.ask_all(RetryTerms(limit=3))
        bench.work()

        assert counts(bench, created) == ("completed", 2, 0, 0)

    def test_is_not_used_up_by_what_is_not_there_any_more(self, bench: Bench) -> None:
        ids = bench.fail(5)
        created = bench.ask_all(RetryTerms(limit=3))
        archive(bench, ids[0])

        bench.work()

        assert bench.sent() == ids[1:4]
        assert counts(bench, created) == ("completed", 3, 0, 0)

    def test_is_not_used_up_by_what_leaves_its_batch(self, bench: Bench) -> None:
        ids = bench.fail(5)
        created = bench.ask_all(RetryTerms(limit=3))
        bench.at("staging.committed", lambda: archive(bench, ids[0]))

        bench.work()

        assert bench.sent() == ids[1:4]
        assert counts(bench, created) == ("completed", 3, 0, 0)

    def test_is_used_up_by_what_could_not_be_sent(self, bench: Bench) -> None:
        # Given a message that goes to a queue that is not there
        bench.fail(1, queue="gone")
        ids = bench.fail(3)

        created = bench.ask_all(RetryTerms(limit=3))
        bench.work()

        assert bench.sent() == ids[:2]
        assert counts(bench, created) == ("completed", 2, 0, 1)

    def test_of_named_messages_sends_the_first_that_can_be(self, bench: Bench) -> None:
        ids = bench.fail(5)
        archive(bench, ids[0])

        created = bench.ask(ids, RetryTerms(limit=2))
        bench.work()

        assert bench.sent() == ids[1:3]
        assert counts(bench, created) == ("completed", 2, 0, 0)

    def test_leaves_the_rest_unresolved_for_the_next_who_asks(self, bench: Bench) -> None:
        ids = bench.fail(3)
        bench.ask_all(RetryTerms(limit=2))
        bench.work()

        bench.ask_all()
        bench.work()

        assert bench.sent() == ids


class TestADestination:
    def test_gets_everything_wherever_it_failed(self, bench: Bench) -> None:
        ids = [*bench.fail(2), *bench.fail(1, queue="billing")]

        bench.ask_all(RetryTerms(destination=OTHER))
        bench.work()

        assert (bench.sent(OTHER), bench.sent()) == (ids, [])

    def test_is_no_start_of_a_redirect(self, bench: Bench) -> None:
        bench.transport.broker.declare("elsewhere")
        create_redirect(bench.db, OTHER, "elsewhere", own_queues=frozenset(), who="ada")
        ids = bench.fail(2)

        bench.ask_all(RetryTerms(destination=OTHER))
        bench.work()

        assert bench.sent(OTHER) == ids

    def test_goes_before_a_redirect_of_the_queue(self, bench: Bench) -> None:
        bench.transport.broker.declare("elsewhere")
        create_redirect(bench.db, QUEUE, "elsewhere", own_queues=frozenset(), who="ada")
        ids = bench.fail(2)

        bench.ask_all(RetryTerms(destination=OTHER))
        bench.work()

        assert bench.sent(OTHER) == ids

    def test_is_that_of_this_operation_only(self, bench: Bench) -> None:
        first, second = bench.fail(2)

        bench.ask([first], RetryTerms(destination=OTHER))
        bench.ask([second])
        bench.work()

        assert (bench.sent(OTHER), bench.sent()) == ([first], [second])


class TestATime:
    def test_that_has_not_come_is_waited_for(self, bench: Bench) -> None:
        bench.fail(2)

        created = bench.ask_all(RetryTerms(delay=timedelta(hours=2)))
        bench.work()

        assert counts(bench, created) == ("waiting", 0, 0, 0)

    def test_that_has_passed_means_now(self, bench: Bench) -> None:
        ids = bench.fail(2)

        bench.ask_all(RetryTerms(delay=timedelta(hours=-2)))
        bench.work()

        assert bench.sent() == ids


class TestARate:
    def test_cuts_a_fifth_of_a_second_at_a_time(self, bench: Bench) -> None:
        ids = bench.fail(5)

        created = bench.ask_all(RetryTerms(rate=10))
        bench.work()

        assert bench.sent() == ids
        assert bench.operation(created)["batches"] == 3

    def test_waits_between_two_cuts(self, bench: Bench) -> None:
        bench.fail(5)
        created = bench.ask_all(RetryTerms(rate=1))
        waits = stretch_wait(bench, created)

        while not bench.take_turn():
            pass

        assert counts(bench, created) == ("forwarding", 1, 0, 0)
        (wait,) = waits
        assert wait >= timedelta(seconds=1)

    def test_lets_others_go_on_meanwhile(self, bench: Bench) -> None:
        slow, quick = [bench.fail(3), bench.fail(2, queue=OTHER)]
        created = bench.ask_all(RetryTerms(rate=1), queue=QUEUE)
        bench.ask_all(queue=OTHER)
        waits = stretch_wait(bench, created)

        while not bench.take_turn():
            pass

        assert bench.sent(OTHER) == quick
        assert bench.sent() == slow[:1]
        assert bench.operation(created)["state"] == "forwarding"
        (wait,) = waits
        assert wait >= timedelta(seconds=1)

    def test_that_is_changed_counts_at_once(self, bench: Bench) -> None:
        ids = bench.fail(5)
        created = bench.ask_all(RetryTerms(rate=1))
        while not bench.take_turn():
            pass

        bench.steer(created, SetRate(1000))
        while not bench.take_turn():
            pass

        assert bench.sent() == ids

    def test_that_is_lifted_limits_nothing(self, bench: Bench) -> None:
        ids = bench.fail(5)
        created = bench.ask_all(RetryTerms(rate=1))

        bench.steer(created, SetRate(None))
        while not bench.take_turn():
            pass

        assert bench.sent() == ids
        assert bench.operation(created)["next_cut"] is None


SOME = Canary(size=2, wait=timedelta(minutes=1), most_back=1)


def canary(bench: Bench) -> dict[str, Any]:
    (row,) = bench.rows(select(retry_operation_canaries))
    return row


def send_canary(bench: Bench, created: CreatedOperation) -> None:
    """Take turns until the operation waits for what comes back."""
    while not bench.take_turn():
        pass
    assert canary(bench)["state"] == "waiting"
    assert bench.operation(created)["state"] == "forwarding"


def read_no_more(bench: Bench) -> None:
    """Let nobody read the error queue, and nobody know how far it was read."""
    bench.reads_all = False
    with bench.db.engine.begin() as conn:
        conn.execute(delete(error_queue_reads))


class TestACanary:
    def test_is_sent_alone(self, bench: Bench) -> None:
        ids = bench.fail(5)
        created = bench.ask_all(RetryTerms(canary=SOME))

        send_canary(bench, created)

        assert bench.sent() == ids[:2]

    def test_is_waited_for(self, bench: Bench) -> None:
        bench.fail(5)
        created = bench.ask_all(RetryTerms(canary=SOME))

        send_canary(bench, created)

        row = bench.operation(created)
        assert row["next_cut"] - row["modified_at"] == SOME.wait

    def test_of_which_nothing_comes_back_lets_the_rest_go(self, bench: Bench) -> None:
        ids = bench.fail(5)
        created = bench.ask_all(RetryTerms(canary=SOME))

        bench.work()

        assert bench.sent() == ids
        assert (canary(bench)["state"], canary(bench)["came_back"]) == ("passed", 0)
        assert counts(bench, created) == ("completed", 5, 0, 0)

    def test_of_which_no_more_than_allowed_come_back_lets_the_rest_go(self, bench: Bench) -> None:
        ids = bench.fail(5)
        created = bench.ask_all(RetryTerms(canary=SOME))
        send_canary(bench, created)
        fail_again(bench, ids[:1])

        bench.work()

        assert (canary(bench)["state"], canary(bench)["came_back"]) == ("passed", 1)
        assert counts(bench, created) == ("completed", 5, 0, 0)

    def test_of_which_too_many_come_back_pauses_the_operation(self, bench: Bench) -> None:
        ids = bench.fail(5)
        created = bench.ask_all(RetryTerms(canary=SOME))
        send_canary(bench, created)
        fail_again(bench, ids[:2])

        bench.work()

        assert (canary(bench)["state"], canary(bench)["came_back"]) == ("failed", 2)
        assert counts(bench, created) == ("paused", 2, 0, 0)
        assert bench.operation(created)["reason"] == "2 of 2 came back: resume or cancel it"

    def test_that_could_not_be_sent_counts_as_come_back(self, bench: Bench) -> None:
        bench.fail(3, queue="gone")
        created = bench.ask_all(RetryTerms(canary=SOME))

        bench.work()

        assert counts(bench, created) == ("paused", 0, 0, 2)

    def test_does_not_count_another_retry_of_the_same_message(self, bench: Bench) -> None:
        # Given a message of the canary that was confirmed, failed anew, was retried and came back
        ids = bench.fail(5)
        created = bench.ask_all(RetryTerms(canary=Canary(size=1, most_back=0)))
        send_canary(bench, created)
        bench.confirm(ids[0])
        message_id = bench.message(ids[0])["message_id"]
        bench.receive(failure(queue=QUEUE, message_id=message_id, time_of_failure=LATER))
        bench.ask([ids[0]])
        while not bench.take_turn():
            pass
        fail_again(bench, ids[:1])
        ended = select(ended_retries).order_by(ended_retries.c.ended_at)
        assert [row["outcome"] for row in bench.rows(ended)] == ["confirmed", "failed"]

        bench.work()

        assert canary(bench)["came_back"] == 0

    def test_counts_what_failed_after_a_person_had_resolved_it(self, bench: Bench) -> None:
        ids = bench.fail(5)
        created = bench.ask_all(RetryTerms(canary=SOME))
        send_canary(bench, created)
        sent = {key: bench.retry_id(key) for key in ids[:2]}
        apply_action(bench.db, Action(act=Act.RESOLVE, who="ada"), ids[:2])
        for key, retry_id in sent.items():
            again = {"message_id": bench.message(key)["message_id"], "retry_id": retry_id}
            bench.receive(failure(queue=QUEUE, time_of_failure=LATER, **again))

        bench.work()

        assert (canary(bench)["state"], canary(bench)["came_back"]) == ("failed", 2)
        assert counts(bench, created) == ("paused", 2, 0, 0)

    def test_is_not_judged_while_something_may_be_unread(self, bench: Bench) -> None:
        ids = bench.fail(5)
        created = bench.ask_all(RetryTerms(canary=SOME))
        send_canary(bench, created)
        read_no_more(bench)

        bench.end_waits()
        bench.work(3)

        assert bench.sent() == ids[:2]
        assert canary(bench)["state"] == "waiting"
        assert bench.operation(created)["reason"] == (
            "its first messages are not judged yet: "
            "no process that reads error queues has been heard of"
        )

    def test_passes_as_soon_as_all_is_read(self, bench: Bench) -> None:
        ids = bench.fail(5)
        created = bench.ask_all(RetryTerms(canary=SOME))
        send_canary(bench, created)
        read_no_more(bench)
        bench.work(3)

        bench.reads_all = True
        bench.work()

        assert bench.sent() == ids
        assert bench.operation(created)["reason"] is None

    def test_of_which_all_are_confirmed_needs_no_more(self, bench: Bench) -> None:
        ids = bench.fail(5)
        bench.ask_all(RetryTerms(canary=SOME))
        while not bench.take_turn():
            pass
        read_no_more(bench)
        for key in ids[:2]:
            bench.confirm(key)

        bench.work()

        assert bench.sent() == ids

    def test_that_can_never_be_judged_is_left_to_a_person(self, bench: Bench) -> None:
        ids = bench.fail(5)
        created = bench.ask_all(RetryTerms(canary=SOME))
        send_canary(bench, created)
        read_no_more(bench)
        long_ago = bench.db.read(lambda tx: tx.now) - timedelta(hours=1)
        with bench.db.engine.begin() as conn:
            conn.execute(update(retry_operation_canaries).values(waited_until=long_ago))

        bench.work()

        assert (bench.sent(), canary(bench)["state"]) == (ids[:2], "failed")
        assert bench.operation(created)["state"] == "paused"
        assert bench.operation(created)["reason"] == (
            "0 of 2 came back so far, and that is not all: "
            "no process that reads error queues has been heard of: resume or cancel it"
        )

    def test_that_failed_lets_the_rest_go_when_a_person_resumes_it(self, bench: Bench) -> None:
        ids = bench.fail(5)
        created = bench.ask_all(RetryTerms(canary=SOME))
        send_canary(bench, created)
        fail_again(bench, ids[:2])
        bench.work()

        bench.steer(created, Resume())
        bench.work()

        assert counts(bench, created) == ("completed", 5, 0, 0)
        assert bench.operation(created)["reason"] is None

    def test_that_failed_may_be_cancelled(self, bench: Bench) -> None:
        ids = bench.fail(5)
        created = bench.ask_all(RetryTerms(canary=SOME))
        send_canary(bench, created)
        fail_again(bench, ids[:2])
        bench.work()

        bench.steer(created, Cancel())
        bench.work()

        assert counts(bench, created) == ("cancelled", 2, 3, 0)

    def test_of_more_messages_than_there_are_is_judged_and_completed(self, bench: Bench) -> None:
        bench.fail(1)
        created = bench.ask_all(RetryTerms(canary=SOME))

        bench.work()

        assert canary(bench)["state"] == "passed"
        assert counts(bench, created) == ("completed", 1, 0, 0)

    def test_of_no_message_is_completed_without_a_wait(self, bench: Bench) -> None:
        created = bench.ask_all(RetryTerms(canary=SOME))

        bench.work()

        assert counts(bench, created) == ("completed", 0, 0, 0)

    def test_that_waits_is_still_waited_for_when_the_rate_is_changed(self, bench: Bench) -> None:
        bench.fail(5)
        created = bench.ask_all(RetryTerms(canary=SOME))
        send_canary(bench, created)
        due = bench.operation(created)["next_cut"]

        bench.steer(created, SetRate(1000))

        assert bench.operation(created)["next_cut"] == due

    def test_that_is_paused_while_it_waits_is_judged_after_it_is_resumed(
        self, bench: Bench
    ) -> None:
        bench.fail(5)
        created = bench.ask_all(RetryTerms(canary=SOME))
        send_canary(bench, created)
        bench.steer(created, Pause())
        bench.end_waits()
        bench.work()
        assert canary(bench)["state"] == "waiting"

        bench.steer(created, Resume())
        bench.work()

        assert counts(bench, created) == ("completed", 5, 0, 0)

    def test_is_shown_with_what_came_back_so_far(self, bench: Bench) -> None:
        ids = bench.fail(5)
        created = bench.ask_all(RetryTerms(canary=SOME))
        send_canary(bench, created)
        fail_again(bench, ids[:1])

        found = find_operation(bench.db, created.operation_id)

        assert found is not None
        assert found.came_back == 1


GIVEN_UP = {"disposition": Disposition.DEAD, "disposition_reason": "it is of no use"}


class TestWhatWasGivenUp:
    def give_up(self, bench: Bench, unique_message_id: str) -> None:
        key = failed_messages.c.unique_message_id == unique_message_id
        with bench.db.engine.begin() as conn:
            conn.execute(update(failed_messages).where(key).values(**GIVEN_UP))

    def test_is_neither_counted_nor_taken_by_a_retry_of_all(self, bench: Bench) -> None:
        dead, other = bench.fail(2)
        self.give_up(bench, dead)

        created = bench.ask_all()
        bench.work()

        assert (created.total, bench.sent()) == (1, [other])
        assert counts(bench, created) == ("completed", 1, 0, 0)

    def test_is_taken_by_who_asks_for_it(self, bench: Bench) -> None:
        dead, _ = bench.fail(2)
        self.give_up(bench, dead)

        bench.ask_all(disposition=WantedDisposition.DEAD)
        bench.work()

        assert bench.sent() == [dead]

    def test_is_not_taken_if_it_was_given_up_after_the_request(self, bench: Bench) -> None:
        dead, other = bench.fail(2)
        created = bench.ask_all()
        self.give_up(bench, dead)

        bench.work()

        assert bench.sent() == [other]
        assert counts(bench, created) == ("completed", 1, 1, 0)


WITH_LARGE = {"x-large": "l", "x-tenant": "a"}


def fail_without(bench: Bench, key: str) -> None:
    """Let the consumer fail with what was sent to it: all but the large header."""
    message = bench.message(key)
    bench.receive(
        failure(
            queue=QUEUE,
            message_id=message["message_id"],
            stamped_id=key,
            retry_id=message["last_retry_id"],
            headers={"x-tenant": "a"},
        )
    )


def test_a_retry_goes_without_the_headers_that_its_request_names(bench: Bench) -> None:
    bench.fail(headers=WITH_LARGE)

    bench.ask_all(RetryTerms(drop_headers=("X-Large",)))
    bench.work()

    (lying,) = bench.transport.broker.holds(QUEUE)
    left = bench.transport.codec.read(lying.raw).headers
    assert "x-large" not in left
    assert left["x-tenant"] == "a"


def test_another_request_drops_nothing(bench: Bench) -> None:
    first, other = bench.fail(2, headers=WITH_LARGE)
    bench.ask([first], RetryTerms(drop_headers=("x-large",)))
    bench.ask([other])
    bench.work()

    sent = [bench.transport.codec.read(each.raw) for each in bench.transport.broker.holds(QUEUE)]

    assert ["x-large" in each.headers for each in sent] == [False, True]


def test_a_retry_without_headers_that_fails_is_a_failure_of_its_message(bench: Bench) -> None:
    (key,) = bench.fail(headers=WITH_LARGE)
    bench.ask([key], RetryTerms(drop_headers=("x-large",)))
    bench.work()

    fail_without(bench, key)
    fail_without(bench, key)

    with bench.db.engine.connect() as conn:
        assert conn.execute(select(failed_messages.c.unique_message_id)).scalars().all() == [key]
    assert bench.message(key)["attempts"] == 3


def test_a_missing_header_that_nobody_dropped_makes_it_another_message(bench: Bench) -> None:
    (key,) = bench.fail(headers=WITH_LARGE)
    bench.ask([key], RetryTerms(drop_headers=("x-other",)))
    bench.work()

    fail_without(bench, key)

    assert bench.message(key)["attempts"] == 1
