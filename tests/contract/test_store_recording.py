"""Recording failures: what a new one, a repeated one and a redelivered one leave in the tables."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy import select

from retrier.domain.streams import NO_POSITION
from retrier.domain.text import jsonable
from retrier.errors import BrokerUnavailable
from retrier.store.message_details import find_message
from retrier.store.recording import record_received
from retrier.store.schema import (
    cause_groups,
    causes,
    failed_messages,
    failure_groups,
    ledger,
    processing_attempts,
)
from retrier.transport.rabbitmq.properties.codec import AmqpPropertyCodec
from tests.contract.store_rows import (
    INSTANCE,
    again,
    everything_but,
    message,
    messages,
    only_message,
    record,
    redelivered,
    rows,
    set_columns,
)
from tests.support.factories import FAILED_AT, dramatiq_body, failure, unique_id

EARLIER = FAILED_AT - timedelta(minutes=5)
LATER = FAILED_AT + timedelta(minutes=5)
FULL = {
    "queue": "orders",
    "destination": "orders.in",
    "endpoint": "Sales",
    "message_type": "Shop.PlaceOrder",
    "exception_type": "Shop.OutOfStock",
    "failure_reason": "rejected",
    "time_sent": datetime(2026, 5, 4, 11, 59, 30, 123456, tzinfo=UTC),
    "completed_steps": '["reserve"]',
    "stream_id": "customer 7",
}
TEXTS = {
    "exception_message": "nothing left",
    "stack_trace": "Shop.OutOfStock: nothing left\n   at Shop.Stock.Take(String item)",
}
"""What is stored only within the raw properties."""
RETRY = "6a4cf3a1-5f0c-4f1b-9d0e-6f5d7b0f0a01"
CODEC = AmqpPropertyCodec()


def groups_of(db, unique_message_id):
    query = (
        select(failure_groups.c.classifier, failure_groups.c.title)
        .join(cause_groups, cause_groups.c.group_id == failure_groups.c.group_id)
        .join(failed_messages, failed_messages.c.cause_id == cause_groups.c.cause_id)
        .where(failed_messages.c.unique_message_id == unique_message_id)
    )
    return dict(db.read(lambda tx: [tuple(row) for row in tx.execute(query)]))


def bodies(db):
    """Return the bodies that are stored, in the order of arrival."""
    stored = [row["body"] for row in rows(db, processing_attempts)]
    return [body for body in stored if body is not None]


class TestANewFailure:
    def test_becomes_a_row_with_every_column(self, database):
        new = failure(**FULL, **TEXTS, time_of_failure=FAILED_AT)

        record(database, new)

        stored = only_message(database)
        assert {stored.pop(key) > 0 for key in ("number", "attempt_id", "cause_id", "text_id")} == {
            True
        }
        assert stored == {
            **FULL,
            "stream_queue": FULL["queue"],
            "unique_message_id": new.computed_id,
            "failure_seq": 1,
            "message_id": new.message_id,
            "status": "unresolved",
            "first_failure": FAILED_AT,
            "last_failure": FAILED_AT,
            "last_failure_known": True,
            "attempts": 1,
            "failure_count": 1,
            "disposition": "manual",
            "disposition_reason": None,
            "reason": "handler_exception",
            "policy": None,
            "stream_rule": None,
            "released": False,
            "edited": False,
            "edit_of": None,
            "archive_operation_id": None,
            "retry_at": None,
            "resolution": None,
            "resolved_at": None,
            "last_retry_id": None,
            "last_modified": new.received_at,
            "dialect": "retrier",
            "error_queue": "error",
            "raw_properties": new.raw,
            "body": new.body,
            "body_hash": new.body_hash,
            "body_size": len(new.body),
            "properties_size": len(new.raw),
            "maybe_copy_of": None,
            "derived_from": None,
            "changed_seq": None,
            "stream_position": NO_POSITION,
            "stream_position_unread": None,
            "last_word": None,
            **dict.fromkeys(("host", "process", "node")),
            **dict.fromkeys(
                ("archived_disposition", "archived_reason", "archived_policy", "archived_retry_at")
            ),
        }

    def test_shows_what_its_raw_properties_say(self, database):
        new = failure(**FULL, **TEXTS, time_of_failure=FAILED_AT)

        record(database, new)

        shown = find_message(database, unique_id(new), CODEC)
        assert shown.headers == jsonable(CODEC.read(new.raw).headers)
        assert shown.content_type == "application/json"
        assert {name: getattr(shown.message, name) for name in TEXTS} == TEXTS

    def test_becomes_an_attempt_with_every_column(self, database):
        new = failure(**FULL, **TEXTS, time_of_failure=FAILED_AT, retry_id="r1")

        record(database, new)

        (attempt,) = rows(database, processing_attempts)
        stored = only_message(database)
        assert attempt == {
            "attempt_id": stored["attempt_id"],
            "number": stored["number"],
            "cause_id": stored["cause_id"],
            "fingerprint": new.fingerprint,
            "retry_id": "r1",
            "time_of_failure": FAILED_AT,
            "received_at": new.received_at,
            "dialect": "retrier",
            "error_queue": "error",
            "completed_steps": FULL["completed_steps"],
            "disposition": "manual",
            "disposition_reason": None,
            "reason": "handler_exception",
            "failure_count": 1,
            "policy": None,
            "retry_at": None,
            "exception_message": None,
            "stack_trace": None,
            "raw_properties": new.raw,
            "body": new.body,
            "body_hash": new.body_hash,
            "same_body_as": None,
            "redelivered": False,
        }

    def test_leaves_its_body(self, database):
        new = failure(body=bytes(range(256)))

        record(database, new)

        assert bodies(database) == [new.body]

    def test_belongs_to_its_groups(self, database):
        new = failure()

        record(database, new)

        expected = {group.classifier: group.title for group in new.cause.groups}
        assert groups_of(database, unique_id(new)) == expected

    def test_shares_its_cause_and_groups_with_others_and_not_its_body(self, database):
        record(database, failure(body=b"same"), failure(body=b"same"))
        record(database, failure(body=b"same"))

        assert bodies(database) == [b"same"] * 3
        assert len(rows(database, causes)) == 1
        assert len(rows(database, failure_groups)) == 4
        assert len(messages(database)) == 3

    def test_counts_as_new(self, database):
        receipt = record(database, failure(), failure())

        assert (receipt.new, receipt.repeated, receipt.redelivered) == (2, 0, 0)

    def test_takes_numbers_in_order_of_arrival(self, database):
        arrived = [failure() for _ in range(5)]

        record(database, *arrived[:3])
        record(database, *arrived[3:])

        numbered = sorted(messages(database).values(), key=lambda row: row["failure_seq"])
        assert [row["unique_message_id"] for row in numbered] == [
            each.computed_id for each in arrived
        ]

    def test_with_an_empty_body_is_stored(self, database):
        record(database, failure(body=b""))

        assert only_message(database)["body_size"] == 0

    def test_may_give_its_times_with_any_offset(self, database):
        east = FAILED_AT.astimezone(timezone(timedelta(hours=5, minutes=30)))

        record(database, failure(time_of_failure=east, time_sent=east))

        assert only_message(database)["last_failure"] == FAILED_AT


def test_what_is_in_doubt_is_not_stored_and_nothing_else_of_it(database):
    record(database, failure())
    before = everything_but(database)

    def doubt() -> None:
        raise BrokerUnavailable("others may have it")

    with pytest.raises(BrokerUnavailable):
        record_received(database, [failure()], instance=INSTANCE, make_sure=doubt)

    assert everything_but(database) == before


class TestARedelivery:
    def test_of_a_stored_attempt_changes_nothing_but_the_ledger(self, database):
        new = failure()
        record(database, new)
        before = everything_but(database, ledger)

        receipt = record(database, redelivered(new))

        assert receipt.redelivered == 1
        assert everything_but(database, ledger) == before

    def test_of_any_stored_attempt_counts_not_only_of_the_last(self, database):
        first = failure()
        record(database, first)
        record(database, again(first, time_of_failure=LATER))
        before = everything_but(database, ledger)

        record(database, redelivered(first))

        assert everything_but(database, ledger) == before

    def test_of_a_message_whose_body_was_replaced_since_is_still_that_attempt(self, database):
        """The first failure comes again after a retry failed with another body."""
        first = failure(retry_id="r0", body=dramatiq_body())
        record(database, first)
        set_columns(database, unique_id(first), last_retry_id=RETRY)
        record(database, again(first, body=dramatiq_body(retries=1), retry_id=RETRY))

        receipt = record(database, redelivered(first))

        assert receipt.redelivered == 1
        assert len(messages(database)) == 1

    def test_that_differs_in_a_byte_is_a_failure_of_its_own(self, database):
        first = failure(headers={"x-tries-count": "1"})
        record(database, first)

        receipt = record(database, redelivered(again(first, headers={"x-tries-count": "2"})))

        assert receipt.repeated == 1

    def test_of_what_was_never_stored_is_new(self, database):
        receipt = record(database, redelivered(failure()))

        assert receipt.new == 1

    def test_equal_bytes_that_the_broker_does_not_call_redelivered_are_another_failure(
        self, database
    ):
        """Broker death times have seconds: two failures within one may be byte-identical."""
        first = failure()
        record(database, first)

        receipt = record(database, first)

        assert receipt.repeated == 1
        assert only_message(database)["attempts"] == 2

    def test_makes_no_redelivery_of_another_failure_with_equal_bytes_beside_it(self, database):
        first = failure()
        record(database, first)

        receipt = record(database, redelivered(first), first)

        assert (receipt.redelivered, receipt.repeated) == (1, 1)

    def test_does_not_bring_back_what_a_person_archived(self, database):
        first = failure()
        record(database, first)
        set_columns(database, unique_id(first), status="archived")

        record(database, redelivered(first))

        assert only_message(database)["status"] == "archived"


class TestAnotherFailureOfTheSameMessage:
    def test_that_is_newer_replaces_the_details(self, database):
        first = failure()
        record(database, first)
        second = again(first, **FULL, **TEXTS, time_of_failure=LATER)

        record(database, second)

        row = only_message(database)
        assert {name: row[name] for name in FULL} == FULL
        assert row["last_failure"] == LATER
        assert row["raw_properties"] == second.raw
        assert row["last_modified"] == second.received_at

    def test_that_is_newer_replaces_the_groups(self, database):
        first = failure(exception_type="A")
        record(database, first)
        second = again(first, exception_type="B", time_of_failure=LATER)

        record(database, second)

        expected = {group.classifier: group.title for group in second.cause.groups}
        assert groups_of(database, unique_id(first)) == expected

    def test_that_is_newer_takes_a_new_number(self, database):
        first, other = failure(), failure()
        record(database, first, other)

        record(database, again(first, time_of_failure=LATER))

        assert message(database, unique_id(first))["failure_seq"] == 3

    def test_that_is_newer_keeps_the_first_failure(self, database):
        first = failure()
        record(database, first)

        record(database, again(first, time_of_failure=LATER))

        assert only_message(database)["first_failure"] == FAILED_AT

    def test_that_is_older_counts_and_overwrites_nothing(self, database):
        first = failure(**FULL)
        record(database, first)
        before = only_message(database)

        receipt = record(
            database,
            again(first, exception_type="Old", queue=FULL["queue"], time_of_failure=EARLIER),
        )

        assert receipt.repeated == 1
        shown = only_message(database) | {"changed_seq": None}
        assert shown == before | {"attempts": 2, "first_failure": EARLIER}

    def test_that_is_older_replaces_no_groups(self, database):
        first = failure()
        record(database, first)
        before = groups_of(database, unique_id(first))

        record(database, again(first, exception_type="Old", time_of_failure=EARLIER))

        assert groups_of(database, unique_id(first)) == before

    def test_that_is_older_moves_the_first_failure_back(self, database):
        first = failure()
        record(database, first)

        record(database, again(first, time_of_failure=EARLIER))

        row = only_message(database)
        assert (row["first_failure"], row["last_failure"]) == (EARLIER, FAILED_AT)

    def test_at_the_same_time_replaces_the_details(self, database):
        first = failure()
        record(database, first)

        record(database, again(first, exception_type="Tie"))

        assert only_message(database)["exception_type"] == "Tie"

    def test_adds_an_attempt_and_keeps_the_ones_before(self, database):
        first = failure()
        second = again(first, time_of_failure=LATER)
        record(database, first)

        record(database, second)

        kept = [row["fingerprint"] for row in rows(database, processing_attempts)]
        assert kept == [first.fingerprint, second.fingerprint]

    def test_keeps_every_body_ever_seen(self, database):
        first = failure(body=b"first")
        record(database, first)
        set_columns(database, unique_id(first), last_retry_id=RETRY)

        record(database, again(first, body=b"second", retry_id=RETRY))

        assert bodies(database) == [b"first", b"second"]


def test_a_batch_may_hold_failures_of_many_known_messages(database):
    newer, older = [failure() for _ in range(3)], [failure() for _ in range(3)]
    record(database, *newer, *older)

    record(
        database,
        *(again(each, time_of_failure=LATER) for each in newer),
        *(again(each, time_of_failure=EARLIER) for each in older),
    )

    stored = messages(database)
    assert {stored[unique_id(each)]["last_failure"] for each in newer} == {LATER}
    assert {stored[unique_id(each)]["first_failure"] for each in older} == {EARLIER}
    assert {row["attempts"] for row in stored.values()} == {2}


class TestTwoFailuresOfOneMessageInOneBatch:
    def test_fold_into_one_row(self, database):
        first = failure()
        second = again(first, exception_type="Second", time_of_failure=LATER)

        receipt = record(database, first, second)

        row = only_message(database)
        assert (receipt.new, receipt.repeated) == (1, 1)
        assert (row["attempts"], row["exception_type"]) == (2, "Second")

    def test_keep_the_time_of_the_first(self, database):
        first = failure()

        record(database, first, again(first, time_of_failure=LATER))

        row = only_message(database)
        assert (row["first_failure"], row["last_failure"]) == (FAILED_AT, LATER)

    def test_end_with_the_newer_one_also_if_it_came_first(self, database):
        newer = failure(exception_type="Newer", time_of_failure=LATER)

        record(database, newer, again(newer, exception_type="Older"))

        row = only_message(database)
        assert row["exception_type"] == "Newer"
        assert (row["first_failure"], row["last_failure"]) == (FAILED_AT, LATER)

    def test_fold_into_a_row_that_is_there(self, database):
        first = failure()
        record(database, first)

        record(
            database,
            again(first, time_of_failure=LATER),
            again(first, time_of_failure=EARLIER),
        )

        row = only_message(database)
        assert row["attempts"] == 3
        assert (row["first_failure"], row["last_failure"]) == (EARLIER, LATER)

    def test_take_the_groups_of_the_newer_one(self, database):
        first = failure(exception_type="A")
        second = again(first, exception_type="B", time_of_failure=LATER)

        record(database, first, second)

        expected = {group.classifier: group.title for group in second.cause.groups}
        assert groups_of(database, unique_id(first)) == expected


class TestAMissingTimeOfFailure:
    def test_is_filled_in_for_people(self, database):
        timeless = failure(time_of_failure=None)

        record(database, timeless)

        row = only_message(database)
        assert row["first_failure"] == row["last_failure"] == timeless.received_at
        assert row["last_failure_known"] is False

    def test_stays_missing_in_the_attempt(self, database):
        record(database, failure(time_of_failure=None))

        (attempt,) = rows(database, processing_attempts)
        assert attempt["time_of_failure"] is None

    def test_of_a_stored_message_makes_no_failure_older(self, database):
        first = failure(time_of_failure=None)
        record(database, first)

        record(database, again(first, exception_type="Next", time_of_failure=EARLIER))

        row = only_message(database)
        assert (row["exception_type"], row["last_failure_known"]) == ("Next", True)

    def test_makes_a_failure_never_older(self, database):
        first = failure(time_of_failure=LATER)
        record(database, first)

        record(database, again(first, exception_type="Next", time_of_failure=None))

        row = only_message(database)
        assert (row["exception_type"], row["last_failure_known"]) == ("Next", False)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_thousand_failures_of_one_message_are_one_row_with_one_body(database):
    first = failure()
    record(database, first)

    for start in range(1, 1001, 250):
        times = [LATER + timedelta(seconds=start + number) for number in range(250)]
        record(database, *(again(first, time_of_failure=time) for time in times))

    assert only_message(database)["attempts"] == 1001
    assert bodies(database) == [first.body]
