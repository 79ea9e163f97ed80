"""Which deliveries are failures of the same message, and which only look like it."""

from dataclasses import replace

import pytest

from tests.contract.store_rows import (
    again,
    message,
    messages,
    only_message,
    record,
    redelivered,
    set_columns,
)
from tests.support.factories import failure, unique_id

RETRY = "6a4cf3a1-5f0c-4f1b-9d0e-6f5d7b0f0a01"
STRANGER = "0c9a4f5e-91d7-4d0e-8d2e-3f1f0a3f6b77"


class TestAMessageWithoutAnId:
    def test_is_never_folded_with_another(self, database):
        first = failure(message_id=None, body=b"same")

        record(database, first, again(first))
        record(database, again(first))

        assert len(messages(database)) == 3

    def test_is_never_folded_with_equal_bytes(self, database):
        first = failure(message_id=None)

        record(database, first, first)
        record(database, first)

        assert len(messages(database)) == 3

    def test_that_comes_again_with_equal_bytes_says_of_what_it_may_be_a_copy(self, database):
        first = failure(message_id=None)
        record(database, first)
        original = only_message(database)["unique_message_id"]

        receipt = record(database, redelivered(first))

        copies = [row["maybe_copy_of"] for row in messages(database).values()]
        assert receipt.new == 1
        assert sorted(copies, key=str) == sorted([None, original], key=str)

    def test_that_is_the_first_of_its_bytes_is_a_copy_of_nothing(self, database):
        record(database, redelivered(failure(message_id=None)))

        assert only_message(database)["maybe_copy_of"] is None

    def test_is_no_copy_of_a_message_with_other_bytes(self, database):
        first = failure(message_id=None)
        record(database, first)

        record(database, redelivered(again(first)))

        assert [row["maybe_copy_of"] for row in messages(database).values()] == [None, None]

    def test_that_came_on_another_error_queue_says_of_what_it_may_be_a_copy(self, database):
        """A dead-letter exchange may copy a message to two queues."""
        first = failure(message_id=None)
        record(database, first)
        original = only_message(database)["unique_message_id"]

        record(database, replace(first, error_queue="another"))

        copies = [row["maybe_copy_of"] for row in messages(database).values()]
        assert sorted(copies, key=str) == sorted([None, original], key=str)

    def test_is_known_again_by_the_id_its_retry_was_stamped_with(self, database):
        first = failure(message_id=None)
        record(database, first)
        stamped = only_message(database)["unique_message_id"]

        receipt = record(database, again(first, stamped_id=stamped))

        assert receipt.repeated == 1

    def test_is_another_one_if_its_stamp_was_copied_from_a_message_with_another_body(
        self, database
    ):
        """Middleware copies headers to the messages a consumer sends; two of them would fold."""
        first = failure(message_id=None)
        record(database, first)
        stamped = only_message(database)["unique_message_id"]
        set_columns(database, stamped, status="retry_issued", last_retry_id=RETRY)

        record(
            database,
            failure(message_id=None, body=b"sent", stamped_id=stamped, retry_id=RETRY),
            failure(message_id=None, body=b"sent too", stamped_id=stamped, retry_id=RETRY),
        )

        assert len(messages(database)) == 3
        assert message(database, stamped)["body_hash"] == first.body_hash

    def test_is_another_one_also_where_the_stamp_is_of_no_stored_message(self, database):
        record(
            database,
            failure(message_id=None, body=b"sent", stamped_id=STRANGER),
            failure(message_id=None, body=b"sent too", stamped_id=STRANGER),
        )

        assert len(messages(database)) == 2


class TestATaskOfSeveralNodes:
    """A version before took the node of a Celery worker for the endpoint (decision 0068)."""

    def stored(self, **changes):
        """Return a failure as that version stored it."""
        return failure(endpoint="w1", **changes)

    def fails(self, before, node="w2@box-2", **changes):
        """Return a later one, by what has become the name of the application."""
        values = {"endpoint": "celery", "node": node, "host": "box-2", "headers": {}}
        return again(before, **(values | {"stamped_id": None} | changes))

    def test_is_one_message_with_two_attempts(self, database):
        first = self.fails(self.stored(), node="w1@box-1", host="box-1")

        record(database, first)
        record(database, self.fails(first))

        found = only_message(database)
        assert (found["attempts"], found["maybe_copy_of"]) == (2, None)
        assert (found["host"], found["node"]) == ("box-2", "w2@box-2")

    def test_may_be_a_copy_of_what_was_stored_by_its_node_however_often_it_fails(self, database):
        before = self.stored()
        record(database, before)

        for attempts in (1, 2):
            now = self.fails(before)
            record(database, now)

            found = message(database, unique_id(now))
            assert (found["attempts"], found["maybe_copy_of"]) == (attempts, unique_id(before))

    @pytest.mark.parametrize(
        "other",
        [{"queue": "bills"}, {"message_type": "shop.bill"}, {"body": b"[]"}, {"node": None}],
        ids=str,
    )
    def test_is_no_copy_of_what_is_another_message(self, database, other):
        before = self.stored()
        record(database, before)

        now = self.fails(before, **other)
        record(database, now)

        assert message(database, unique_id(now))["maybe_copy_of"] is None

    def test_is_no_copy_of_what_is_settled(self, database):
        before = self.stored()
        record(database, before)
        set_columns(database, unique_id(before), status="archived")

        now = self.fails(before)
        record(database, now)

        assert message(database, unique_id(now))["maybe_copy_of"] is None

    def test_that_was_stored_before_has_the_outcome_of_its_retry(self, database):
        """Both copies of a retry fail: it was sent twice in a crash, before the upgrade."""
        before = self.stored(headers={})
        record(database, before)
        stamped = unique_id(before)
        set_columns(database, stamped, status="retry_issued", last_retry_id=RETRY)

        for _ in range(2):
            record(database, self.fails(before, stamped_id=stamped, retry_id=RETRY))

        found = only_message(database)
        assert (found["unique_message_id"], found["attempts"]) == (stamped, 3)


class TestAStampedId:
    def test_is_believed_with_the_same_message_id(self, database):
        first = failure(stamped_id=STRANGER)
        record(database, first)

        receipt = record(database, again(first))

        assert receipt.repeated == 1
        assert set(messages(database)) == {STRANGER}

    def test_is_believed_where_no_message_has_it(self, database):
        record(database, failure(stamped_id=STRANGER))

        assert set(messages(database)) == {STRANGER}

    def test_is_not_believed_with_another_message_id(self, database):
        stored = failure()
        record(database, stored)
        other = failure(stamped_id=unique_id(stored), body=stored.body)

        receipt = record(database, other)

        assert receipt.new == 1
        assert set(messages(database)) == {stored.computed_id, other.computed_id}

    def test_is_not_believed_without_a_message_id(self, database):
        stored = failure()
        record(database, stored)

        receipt = record(
            database, failure(message_id=None, stamped_id=unique_id(stored), body=stored.body)
        )

        assert receipt.new == 1

    def test_is_not_believed_of_a_message_without_id_by_one_that_has_one(self, database):
        record(database, failure(message_id=None, body=b"same"))
        stamped = only_message(database)["unique_message_id"]

        receipt = record(database, failure(stamped_id=stamped, body=b"same"))

        assert receipt.new == 1

    def test_is_not_believed_with_another_body_and_no_retry_of_it(self, database):
        """The publisher reuses its message ids, and middleware copied the stamp."""
        stored = failure(message_id="1")
        record(database, stored)

        receipt = record(
            database, failure(message_id="1", body=b"another", stamped_id=unique_id(stored))
        )

        assert receipt.new == 1
        assert message(database, unique_id(stored))["body_hash"] == stored.body_hash

    def test_is_not_believed_with_another_body_and_the_last_retry_of_it(self, database):
        """A consumer that sends messages copies the stamps of the one that it handles."""
        stored = failure(message_id="1")
        record(database, stored)
        set_columns(database, unique_id(stored), status="retry_issued", last_retry_id=RETRY)

        receipt = record(
            database,
            failure(message_id="1", body=b"new", stamped_id=unique_id(stored), retry_id=RETRY),
        )

        assert receipt.new == 1

    @pytest.mark.parametrize("apart", [False, True], ids=["one batch", "two batches"])
    def test_that_two_messages_copied_is_believed_of_the_first_only(self, database, apart):
        first, second = failure(stamped_id=STRANGER), failure(stamped_id=STRANGER)

        for batch in ([first], [second]) if apart else ([first, second],):
            record(database, *batch)

        assert set(messages(database)) == {STRANGER, second.computed_id}


class TestAnEqualMessageId:
    def test_at_another_endpoint_is_another_message(self, database):
        record(database, failure(message_id="1", endpoint="Sales", body=b"same"))

        receipt = record(database, failure(message_id="1", endpoint="Billing", body=b"same"))

        assert receipt.new == 1

    @pytest.mark.parametrize("apart", [False, True], ids=["one batch", "two batches"])
    def test_with_another_body_is_another_message(self, database, apart):
        first = failure(message_id="1", body=b"first")
        second = failure(message_id="1", body=b"second")

        for batch in ([first], [second]) if apart else ([first, second],):
            record(database, *batch)

        hashes = {row["body_hash"] for row in messages(database).values()}
        assert hashes == {first.body_hash, second.body_hash}

    def test_with_another_body_is_that_other_message_every_time(self, database):
        first, second = failure(message_id="1", body=b"1"), failure(message_id="1", body=b"2")
        record(database, first, second)

        receipt = record(database, again(second), again(first))

        assert (receipt.new, receipt.repeated) == (0, 2)
        assert [row["attempts"] for row in messages(database).values()] == [2, 2]

    def test_with_another_body_and_the_last_retry_of_the_message_is_another(self, database):
        first = failure()
        record(database, first)
        set_columns(database, unique_id(first), status="retry_issued", last_retry_id=RETRY)

        receipt = record(database, again(first, body=b"changed", retry_id=RETRY))

        assert receipt.new == 1
        assert message(database, unique_id(first))["status"] == "retry_issued"

    def test_with_another_body_and_some_other_retry_is_another_message(self, database):
        first = failure()
        record(database, first)
        set_columns(database, unique_id(first), last_retry_id=RETRY)

        receipt = record(database, again(first, body=b"changed", retry_id=STRANGER))

        assert receipt.new == 1


def test_a_computed_id_that_two_message_ids_share_is_of_the_first(database):
    """ServiceControl puts nothing between message id and endpoint: "1" + "1shop", "11" + "shop"."""
    first = failure(message_id="1", body=b"", computed_id=STRANGER)
    second = failure(message_id="11", body=b"", computed_id=STRANGER)

    record(database, first, second)
    receipt = record(database, again(second, computed_id=STRANGER))

    assert receipt.repeated == 1
    assert {row["message_id"] for row in messages(database).values()} == {"1", "11"}
    assert message(database, STRANGER)["attempts"] == 1
