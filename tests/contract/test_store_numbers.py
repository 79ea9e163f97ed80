"""Numbers: that of a message stays, and that of its failure is new whenever it is unresolved."""

from datetime import timedelta

import pytest
from sqlalchemy import delete

from retrier.domain.archive_operation import Act
from retrier.domain.wire import Refused
from retrier.store.archive import Action
from retrier.store.engine.database import Database
from retrier.store.schema import failed_messages, processing_attempts
from tests.contract.store_retries import SENT, STAGED, bring_to
from tests.contract.store_rows import again, message, messages, only_message, record, redelivered
from tests.support.acting import apply_action
from tests.support.bench import QUEUE, Bench
from tests.support.factories import FAILED_AT, confirmation, failure, unique_id
from tests.support.script import to_queue

EARLIER = FAILED_AT - timedelta(minutes=5)
LATER = FAILED_AT + timedelta(minutes=5)


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def act(bench: Bench, wanted: Act, key: str) -> None:
    acted = apply_action(bench.db, Action(act=wanted, who="ada"), [key])
    assert acted.done == (key,)


def in_order_of_number(db: Database) -> list[str]:
    return sorted(messages(db), key=lambda key: messages(db)[key]["number"])


def delete_newest(db: Database) -> int:
    """Delete the message with the highest number and its attempts; return the number."""
    newest = max(row["number"] for row in messages(db).values())
    with db.engine.begin() as conn:
        for table in (processing_attempts, failed_messages):
            conn.execute(delete(table).where(table.c.number == newest))
    return newest


class TestTheNumberOfAMessage:
    def test_ascends_in_the_order_of_arrival_within_a_batch_and_over_batches(
        self, database: Database
    ) -> None:
        arrived = [failure() for _ in range(20)]

        record(database, *arrived[:12])
        record(database, *arrived[12:])

        assert in_order_of_number(database) == [unique_id(each) for each in arrived]

    def test_is_by_arrival_and_not_by_the_time_of_failure(self, database: Database) -> None:
        late, early = failure(time_of_failure=LATER), failure(time_of_failure=EARLIER)

        record(database, late, early)

        assert in_order_of_number(database) == [unique_id(late), unique_id(early)]

    def test_is_that_of_its_first_failure(self, database: Database) -> None:
        first, second = failure(), failure()
        record(database, first, second)

        record(database, again(first, time_of_failure=LATER))

        assert in_order_of_number(database) == [unique_id(first), unique_id(second)]

    @pytest.mark.parametrize("failed_at", [EARLIER, FAILED_AT, LATER, None], ids=str)
    def test_stays_the_same_over_failures(self, database: Database, failed_at: object) -> None:
        first = failure()
        record(database, first)
        before = only_message(database)["number"]

        record(database, again(first, time_of_failure=failed_at), redelivered(first))

        assert only_message(database)["number"] == before

    def test_stays_the_same_over_all_that_becomes_of_the_message(self, bench: Bench) -> None:
        retry = bring_to(bench, SENT)
        seen = [retry.message["number"]]

        for wanted in (Act.RELEASE, Act.ARCHIVE, Act.UNARCHIVE, Act.RESOLVE):
            act(bench, wanted, retry.key)
            seen.append(retry.message["number"])
        retry.fail(time_of_failure=LATER)
        retry.confirm(succeeded_at=LATER + timedelta(minutes=1))

        assert {retry.message["number"]} == set(seen)

    def test_is_not_given_out_again_after_the_newest_message_was_deleted(
        self, database: Database
    ) -> None:
        record(database, failure(), failure())
        gone = delete_newest(database)

        next_one = failure()
        record(database, next_one)

        assert message(database, unique_id(next_one))["number"] > gone

    def test_is_not_given_out_again_after_all_messages_were_deleted(
        self, database: Database
    ) -> None:
        record(database, failure())
        gone = delete_newest(database)

        record(database, failure())

        assert only_message(database)["number"] > gone
        assert only_message(database)["attempt_id"] > 1


class TestTheNumberOfAFailure:
    def test_is_not_given_out_again_after_the_newest_message_was_deleted(
        self, database: Database
    ) -> None:
        record(database, failure())
        before = only_message(database)["failure_seq"]
        delete_newest(database)

        record(database, failure())

        assert only_message(database)["failure_seq"] > before

    def test_is_new_each_time_the_message_becomes_unresolved(self, bench: Bench) -> None:
        retry = bring_to(bench, SENT)
        seen = [retry.message["failure_seq"]]

        act(bench, Act.RELEASE, retry.key)
        seen.append(retry.message["failure_seq"])
        act(bench, Act.ARCHIVE, retry.key)
        act(bench, Act.UNARCHIVE, retry.key)
        seen.append(retry.message["failure_seq"])
        act(bench, Act.RESOLVE, retry.key)
        retry.fail(time_of_failure=LATER)
        seen.append(retry.message["failure_seq"])
        retry.fail(time_of_failure=LATER)
        seen.append(retry.message["failure_seq"])

        assert seen == sorted(set(seen))

    def test_is_new_after_a_retry_that_could_not_be_sent(self, bench: Bench) -> None:
        (key,) = bench.fail()
        before = bench.message(key)["failure_seq"]
        bench.transport.cue(Refused("queue is full"), when=to_queue(QUEUE))
        created = bench.ask_all()

        bench.work()

        assert bench.operation(created)["failed"] == 1
        assert bench.message(key)["failure_seq"] > before

    def test_stays_with_what_is_only_one_more_attempt(self, database: Database) -> None:
        first = failure()
        record(database, first)
        before = only_message(database)["failure_seq"]

        record(database, again(first, time_of_failure=EARLIER), redelivered(first))

        assert only_message(database)["failure_seq"] == before

    @pytest.mark.parametrize("wanted", [Act.ARCHIVE, Act.RESOLVE])
    def test_stays_with_what_is_put_aside(self, bench: Bench, wanted: Act) -> None:
        retry = bring_to(bench, STAGED)
        before = retry.message["failure_seq"]

        act(bench, wanted, retry.key)

        assert retry.message["failure_seq"] == before

    def test_stays_with_a_confirmation(self, database: Database) -> None:
        first = failure()
        record(database, first)
        before = only_message(database)["failure_seq"]

        record(database, confirmation(unique_id(first)))

        assert only_message(database)["status"] == "resolved"
        assert only_message(database)["failure_seq"] == before
