"""Bodies: equal ones of one message are stored once, and no two messages share any."""

from datetime import timedelta

from sqlalchemy import delete

from retrier.store.engine.database import Database
from retrier.store.forwarding import load_originals
from retrier.store.message_details import find_body
from retrier.store.schema import failed_messages, processing_attempts
from retrier.store.verification import verify_store
from retrier.transport.rabbitmq.properties.codec import AmqpPropertyCodec
from tests.contract.store_rows import again, message, only_message, record, rows, set_columns
from tests.support.factories import FAILED_AT, dramatiq_body, failure, unique_id

RETRY = "6a4cf3a1-5f0c-4f1b-9d0e-6f5d7b0f0a01"
CODEC = AmqpPropertyCodec()


def at(minutes):
    return FAILED_AT + timedelta(minutes=minutes)


def stored_bodies(db: Database) -> list[bytes | None]:
    """Return what each attempt has of its own, in the order of arrival."""
    return [row["body"] for row in rows(db, processing_attempts)]


def shown_body(db: Database, key: str) -> bytes:
    found = find_body(db, key, CODEC)
    assert found is not None
    return found.body


ORDER, CHANGED = dramatiq_body(), dramatiq_body(retries=1)
"""Bodies of one task: it counts its own retries in there, so both are of one message."""


def fail_with(db: Database, first, body: bytes, minutes: int) -> None:
    """Let a retry of the message fail with that body."""
    set_columns(db, unique_id(first), last_retry_id=RETRY)
    record(db, again(first, body=body, retry_id=RETRY, time_of_failure=at(minutes)))


def broken_rules(db: Database) -> list[str]:
    return [rule.rule for rule in verify_store(db).rules if rule.broken]


def test_an_equal_body_of_the_same_message_is_stored_once(database: Database) -> None:
    first = failure(body=b"an order")
    record(database, first)

    for minutes in (1, 2):
        record(database, again(first, time_of_failure=at(minutes)))

    holder, *others = rows(database, processing_attempts)
    assert stored_bodies(database) == [b"an order", None, None]
    assert {row["same_body_as"] for row in others} == {holder["attempt_id"]}
    assert shown_body(database, unique_id(first)) == b"an order"
    assert broken_rules(database) == []


def test_equal_bodies_that_come_in_one_batch_are_stored_once(database: Database) -> None:
    first = failure(body=b"an order")

    record(database, first, *(again(first, time_of_failure=at(n)) for n in (1, 2)))

    assert stored_bodies(database) == [b"an order", None, None]
    assert shown_body(database, unique_id(first)) == b"an order"
    assert broken_rules(database) == []


def test_an_empty_body_is_a_body(database: Database) -> None:
    first = failure(body=b"")

    record(database, first, again(first, time_of_failure=at(1)))

    assert stored_bodies(database) == [b"", None]
    assert shown_body(database, unique_id(first)) == b""


def test_equal_bodies_of_two_messages_are_stored_for_each(database: Database) -> None:
    record(database, failure(body=b"same"))

    record(database, failure(body=b"same"), failure(body=b"same"))

    assert stored_bodies(database) == [b"same"] * 3


def test_a_body_does_not_go_with_another_message_that_is_deleted(database: Database) -> None:
    gone, kept = failure(body=b"same"), failure(body=b"same")
    record(database, gone, kept)
    number = message(database, unique_id(gone))["number"]

    with database.engine.begin() as conn:
        for table in (processing_attempts, failed_messages):
            conn.execute(delete(table).where(table.c.number == number))

    assert shown_body(database, unique_id(kept)) == b"same"


def test_another_body_of_the_same_message_is_stored_and_shown(database: Database) -> None:
    first = failure(body=ORDER)
    record(database, first)

    fail_with(database, first, CHANGED, 1)

    assert stored_bodies(database) == [ORDER, CHANGED]
    assert shown_body(database, unique_id(first)) == CHANGED
    assert only_message(database)["body_size"] == len(CHANGED)


def test_a_third_body_that_equals_the_first_is_kept_and_shown(database: Database) -> None:
    first = failure(body=ORDER)
    record(database, first)

    fail_with(database, first, CHANGED, 1)
    fail_with(database, first, ORDER, 2)

    assert shown_body(database, unique_id(first)) == ORDER
    assert len(rows(database, processing_attempts)) == 3
    assert broken_rules(database) == []


def test_a_batch_that_brings_the_first_body_again_after_another_shows_it(
    database: Database,
) -> None:
    first = failure(body=ORDER)
    record(database, first)
    set_columns(database, unique_id(first), last_retry_id=RETRY)

    record(
        database,
        again(first, body=CHANGED, retry_id=RETRY, time_of_failure=at(1)),
        again(first, body=ORDER, retry_id=RETRY, time_of_failure=at(2)),
    )

    assert shown_body(database, unique_id(first)) == ORDER
    assert broken_rules(database) == []


def test_a_retry_sends_the_body_though_another_attempt_holds_it(database: Database) -> None:
    first = failure(body=b"an order")
    record(database, first)
    record(database, again(first, time_of_failure=at(1)))
    number = only_message(database)["number"]

    original = load_originals(database, [number])[number]
    assert original is not None
    assert original.body == b"an order"


def test_an_older_failure_leaves_the_newest_body_shown(database: Database) -> None:
    newest = failure(body=ORDER)
    record(database, newest)
    set_columns(database, unique_id(newest), last_retry_id=RETRY)

    record(database, again(newest, body=CHANGED, retry_id=RETRY, time_of_failure=at(-5)))

    assert stored_bodies(database) == [ORDER, CHANGED]
    assert shown_body(database, unique_id(newest)) == ORDER
