"""What waits to be sent to the log queue: written with its failure, deleted when it is sent."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import delete, select

from retrier.domain.failed_message import OwnCopy, Received
from retrier.domain.recording import Receipt
from retrier.store.engine.database import Database
from retrier.store.figures import read_figures
from retrier.store.outgoing import find_outgoing, is_any_outgoing, load_contents, settle_outgoing
from retrier.store.recording import record_received
from retrier.store.schema import outgoing, processing_attempts
from tests.contract.store_rows import again, redelivered, rows, select_rows
from tests.support.factories import confirmation, failed_import, failure, unique_id
from tests.support.outbox import LOG, Outbox

MINUTE = timedelta(minutes=1)


def record(db: Database, *received: Received, forward_to: str | None = LOG) -> Receipt:
    return record_received(db, received, instance="here", forward_to=forward_to).receipt


def waiting_ids(db: Database) -> list[int]:
    return [each.outgoing_id for each in find_outgoing(db, 100)]


def bytes_waiting(db: Database) -> Sequence[tuple[str | None, bytes, bytes]]:
    """Return the message's id, the properties and the body of each copy, in their order."""
    found = find_outgoing(db, 100)
    contents = load_contents(db, [each.attempt_id for each in found])
    return [(each.unique_message_id, *contents[each.attempt_id]) for each in found]


class TestAFailureThatIsStored:
    def test_waits_with_the_bytes_it_came_with(self, database: Database) -> None:
        first, second = failure(), failure(body=b"\x00\xff")

        record(database, first, second)

        assert bytes_waiting(database) == [
            (unique_id(first), first.raw, first.body),
            (unique_id(second), second.raw, second.body),
        ]
        assert {row["queue"] for row in rows(database, outgoing)} == {LOG}

    def test_again_waits_again_though_its_body_is_stored_once(self, database: Database) -> None:
        first = failure()
        record(database, first)
        second = again(first)

        record(database, second)

        assert [raw for _, raw, _ in bytes_waiting(database)] == [first.raw, second.raw]
        assert [body for _, _, body in bytes_waiting(database)] == [first.body, first.body]

    def test_names_its_own_attempt_and_message(self, database: Database) -> None:
        record(database, failure(), failure())

        stored = select(processing_attempts.c.attempt_id, processing_attempts.c.number)
        named = [(row["attempt_id"], row["number"]) for row in rows(database, outgoing)]
        attempts = select_rows(database, stored.order_by(processing_attempts.c.attempt_id))
        assert named == [(row["attempt_id"], row["number"]) for row in attempts]

    def test_waits_for_nothing_without_a_log_queue(self, database: Database) -> None:
        record(database, failure(), forward_to=None)

        assert rows(database, outgoing) == []
        assert not is_any_outgoing(database)

    def test_does_not_wait_if_it_is_a_copy_that_failed_on_the_log_queue(
        self, database: Database
    ) -> None:
        original = failure()
        copy = replace(original, logged_id=unique_id(original))

        record(database, copy)

        assert rows(database, outgoing) == []

    def test_does_not_wait_if_it_is_a_copy_without_any_id(self, database: Database) -> None:
        """Each time it gets another id: by that alone it would circle for ever."""
        record(database, failure(message_id=None, body=b"?", logged_id="an earlier one"))

        assert rows(database, outgoing) == []

    def test_waits_though_a_consumer_has_copied_the_header_of_another(
        self, database: Database
    ) -> None:
        record(database, failure(logged_id=unique_id(failure())))

        assert len(rows(database, outgoing)) == 1


class TestWhatIsNotForwarded:
    def test_is_a_redelivery_of_a_stored_failure(self, database: Database) -> None:
        first = failure()
        record(database, first)

        assert record(database, redelivered(first)).redelivered == 1

        assert len(rows(database, outgoing)) == 1

    def test_is_a_confirmation_a_copy_of_ours_or_a_failed_import(self, database: Database) -> None:
        first = failure()
        record(database, first, forward_to=None)

        record(
            database,
            confirmation(unique_id(first)),
            OwnCopy(staging_id="s", unique_message_id=None, error_queue="error"),
            failed_import(),
        )

        assert rows(database, outgoing) == []


def test_no_row_is_left_of_a_failure_that_could_not_be_stored(database: Database) -> None:
    """Both are one transaction: with the one the other is undone."""
    real = database.transact
    database.transact = lambda verb: real(lambda tx: (verb(tx), 1 / 0)[0])  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        record(database, failure())
    del database.transact  # type: ignore[method-assign]

    assert rows(database, outgoing) == []
    assert rows(database, processing_attempts) == []


class TestACopy:
    def test_that_is_sent_is_gone_and_the_others_wait(self, database: Database) -> None:
        record(database, *(failure() for _ in range(3)))
        first, *others = waiting_ids(database)

        settle_outgoing(database, [first], {}, MINUTE)

        assert waiting_ids(database) == others

    def test_that_was_refused_waits_with_its_reason(self, database: Database) -> None:
        record(database, *(failure() for _ in range(3)))
        first, *others = waiting_ids(database)

        settle_outgoing(database, [], {first: "too large"}, MINUTE)

        assert waiting_ids(database) == others
        kept = {row["outgoing_id"]: row["reason"] for row in rows(database, outgoing)}
        assert kept == {first: "too large"} | dict.fromkeys(others)

    def test_that_was_refused_is_due_again_in_its_old_place(self, database: Database) -> None:
        record(database, failure(), failure())
        first, second = waiting_ids(database)

        settle_outgoing(database, [], {first: "too large"}, timedelta(0))

        found = find_outgoing(database, 100)
        assert [(each.outgoing_id, each.put_off) for each in found] == [
            (first, True),
            (second, False),
        ]

    def test_to_a_queue_that_is_left_out_is_not_found(self, database: Database) -> None:
        record(database, failure(), forward_to="one")
        record(database, failure(), forward_to="another")

        assert [each.queue for each in find_outgoing(database, 100, {"one"})] == ["another"]

    def test_says_how_large_it_is(self, database: Database) -> None:
        first = failure(body=b"x" * 5000)
        record(database, first)
        record(database, again(first, raw=first.raw))

        sizes = [each.size for each in find_outgoing(database, 100)]
        assert sizes == [len(first.raw) + 5000] * 2

    def test_whose_failure_was_deleted_has_no_content_and_is_found(
        self, database: Database
    ) -> None:
        record(database, failure())
        with database.engine.begin() as conn:
            conn.execute(delete(processing_attempts))

        (found,) = find_outgoing(database, 100)

        assert (found.size, load_contents(database, [found.attempt_id])) == (0, {})


def test_only_so_many_are_found_the_oldest_first(database: Database) -> None:
    record(database, *(failure() for _ in range(5)))

    assert [each.outgoing_id for each in find_outgoing(database, 2)] == waiting_ids(database)[:2]


def test_the_figures_say_how_many_wait_and_how_long_the_oldest_does(database: Database) -> None:
    assert read_figures(database).oldest_outgoing is None

    record(database, failure(), failure())

    figures = read_figures(database)
    assert figures.outgoing == 2
    assert figures.oldest_outgoing is not None
    assert timedelta(0) <= figures.oldest_outgoing < MINUTE


def test_a_copy_of_which_nothing_is_stored_any_more_keeps_no_other(database: Database) -> None:
    outbox = Outbox(database)
    outbox.fail(1)
    with database.engine.begin() as conn:
        conn.execute(delete(processing_attempts))
    (good,) = outbox.fail(1)

    outbox.work()

    assert outbox.logged() == [good]
    assert [row["reason"] for row in outbox.rows()] == [
        "the failure that it is a copy of was deleted"
    ]
