"""A body that somebody has deleted by hand: nothing is sent in its stead."""

import pytest
from sqlalchemy import delete

from retrier.domain.failed_message import Failure
from retrier.store.engine.database import Database
from retrier.store.schema import processing_attempts
from tests.support.bench import QUEUE, Bench
from tests.support.factories import failure, unique_id
from tests.support.stored import select_messages


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def lose_body(bench: Bench) -> str:
    """Let a message fail twice with one body, and delete the failure that holds it."""
    first = failure(queue=QUEUE)
    bench.receive(first)
    bench.receive(failure(queue=QUEUE, message_id=first.message_id, body=first.body))
    with bench.db.engine.begin() as conn:
        conn.execute(
            delete(processing_attempts).where(processing_attempts.c.same_body_as.is_(None))
        )
    return unique_id(first)


def test_a_message_whose_body_is_gone_is_not_sent(bench: Bench) -> None:
    lose_body(bench)

    bench.ask_all()
    bench.work()

    assert bench.sent() == []


def test_a_message_whose_body_is_gone_is_unresolved_again_and_says_why(bench: Bench) -> None:
    lost = lose_body(bench)

    bench.ask_all()
    bench.work()

    row = bench.message(lost)
    assert row["status"] == "unresolved"
    assert "its body is not in the database any more" in row["disposition_reason"]


def test_a_message_whose_body_is_gone_holds_up_no_other(bench: Bench) -> None:
    lose_body(bench)
    others = bench.fail(2)

    operation = bench.ask_all()
    bench.work()

    assert bench.sent() == others
    assert bench.operation(operation)["state"] == "completed"


def lose_attempts(bench: Bench, first: Failure) -> None:
    """Delete every failure of the message; its own row stays."""
    with bench.db.engine.begin() as conn:
        conn.execute(delete(processing_attempts))
    assert bench.statuses() == {unique_id(first): "unresolved"}


def test_a_body_that_comes_again_after_its_failure_was_deleted_is_stored(bench: Bench) -> None:
    first = failure(queue=QUEUE)
    bench.receive(first)
    same = {"queue": QUEUE, "message_id": first.message_id, "body": first.body}
    bench.receive(failure(**same))
    with bench.db.engine.begin() as conn:
        conn.execute(
            delete(processing_attempts).where(processing_attempts.c.same_body_as.is_(None))
        )

    bench.receive(failure(**same))

    assert bench.message(unique_id(first))["body"] == first.body


def test_a_message_whose_failures_are_gone_blocks_nothing_that_arrives(bench: Bench) -> None:
    first = failure(queue=QUEUE)
    bench.receive(first)
    lose_attempts(bench, first)

    bench.receive(failure(queue=QUEUE, message_id=first.message_id, body=first.body))

    (stored,) = bench.rows(select_messages())
    assert stored["body"] == first.body
