"""Confirmations: a consumer's word that a retry succeeded, early, late, twice or out of order."""

from dataclasses import replace
from datetime import timedelta

import pytest

from retrier.store.schema import failed_imports, ledger
from tests.contract.store_retries import BEING_SENT, CLAIMED, ISSUED, SENT, STAGES, bring_to
from tests.contract.store_rows import (
    again,
    everything_but,
    ledger_entries,
    messages,
    only_message,
    record,
    rows,
    set_columns,
)
from tests.support.bench import Bench
from tests.support.factories import FAILED_AT, confirmation, failed_import, failure, unique_id
from tests.support.statements import statements

UNKNOWN = "00000000-0000-0000-0000-000000000000"
EARLIER = FAILED_AT - timedelta(minutes=5)
LATER = FAILED_AT + timedelta(minutes=5)
MUCH_LATER = FAILED_AT + timedelta(minutes=10)


@pytest.fixture
def bench(database):
    return Bench(database)


class TestAConfirmationOfAMessageInRetryIssued:
    @pytest.mark.parametrize("succeeded_at", [EARLIER, None], ids=["earlier", "no time"])
    @pytest.mark.parametrize("stage", ISSUED)
    def test_resolves_it(self, bench, stage, succeeded_at):
        retry = bring_to(bench, stage)

        retry.confirm(succeeded_at=succeeded_at)

        assert retry.message["status"] == "resolved"
        assert retry.message["resolution"] == "confirmed"
        assert not retry.has_claim

    def test_says_when_it_succeeded(self, bench):
        retry = bring_to(bench, SENT)

        retry.confirm(succeeded_at=LATER)

        assert retry.message["resolved_at"] == LATER
        assert retry.message["last_modified"] == LATER + timedelta(seconds=1)

    def test_keeps_the_number_of_attempts(self, bench):
        retry = bring_to(bench, SENT)

        retry.confirm()

        assert retry.message["attempts"] == 1

    def test_may_come_before_the_forward_is_recorded(self, bench):
        retry = bring_to(bench, BEING_SENT)

        retry.confirm()
        retry.finish()

        assert retry.message["status"] == "resolved"
        assert bench.sent() == [retry.key]

    def test_may_come_twice(self, bench):
        retry = bring_to(bench, SENT)
        retry.confirm(succeeded_at=LATER)
        before = everything_but(bench.db, ledger)

        retry.confirm(succeeded_at=MUCH_LATER)

        assert everything_but(bench.db, ledger) == before

    def test_may_come_twice_in_one_batch(self, bench):
        retry = bring_to(bench, BEING_SENT)
        twice = [confirmation(retry.key)] * 2

        bench.receive(*twice)

        assert retry.operation["forwarded"] == 1
        assert ledger_entries(bench.db)["confirmations"] == 2


def test_a_batch_may_hold_confirmations_of_many_messages(database):
    failed = [failure() for _ in range(3)]
    record(database, *failed)

    record(database, *(confirmation(unique_id(each), succeeded_at=LATER) for each in failed))

    assert [row["status"] for row in messages(database).values()] == ["resolved"] * 3


class TestAConfirmationOfAnUnresolvedMessage:
    @pytest.mark.parametrize(
        ("succeeded_at", "status"),
        [(EARLIER, "unresolved"), (FAILED_AT, "unresolved"), (LATER, "resolved")],
        ids=["earlier", "tie", "later"],
    )
    def test_counts_only_if_it_is_later_than_the_last_failure(self, database, succeeded_at, status):
        first = failure()
        record(database, first)

        record(database, confirmation(unique_id(first), succeeded_at=succeeded_at))

        assert only_message(database)["status"] == status

    def test_without_a_time_changes_nothing(self, database):
        first = failure()
        record(database, first)

        record(database, confirmation(unique_id(first), succeeded_at=None))

        assert only_message(database)["status"] == "unresolved"

    def test_whose_failure_gave_no_time_changes_nothing(self, database):
        """The time of arrival is filled in for people; it says nothing of what came first."""
        first = failure(time_of_failure=None)
        record(database, first)

        record(database, confirmation(unique_id(first), succeeded_at=MUCH_LATER))

        assert only_message(database)["status"] == "unresolved"

    def test_of_an_older_retry_hides_no_newer_failure(self, bench):
        retry = bring_to(bench, SENT)
        retry.fail(retry_id=retry.retry_id, time_of_failure=MUCH_LATER)

        retry.confirm(succeeded_at=LATER)

        assert retry.message["status"] == "unresolved"

    def test_ends_the_claim_with_the_status(self, bench):
        retry = bring_to(bench, CLAIMED)

        retry.confirm(succeeded_at=LATER)

        finished = retry.finish()
        assert (retry.message["status"], retry.has_claim) == ("resolved", False)
        assert (finished["forwarded"], finished["skipped"]) == (0, 1)
        assert bench.sent() == []

    def test_that_is_older_leaves_the_claim(self, bench):
        retry = bring_to(bench, CLAIMED)

        retry.confirm(succeeded_at=EARLIER)

        assert retry.has_claim


class TestAConfirmationThatFindsNothingToDo:
    @pytest.mark.parametrize("body", [b"", b"{}", b"an order"])
    def test_of_an_unknown_message_is_a_failed_import(self, database, body):
        record(database, failure())
        before = messages(database)

        record(database, confirmation(UNKNOWN, if_unknown=failed_import(body=body)))

        (kept,) = rows(database, failed_imports)
        assert kept["body"] == body
        assert ledger_entries(database) == {"taken_off": 2, "new": 1, "failed_imports": 1}
        assert messages(database) == before

    def test_of_an_unknown_message_is_one_failed_import_however_often_it_is_delivered(
        self, database
    ):
        word = confirmation(UNKNOWN)
        unknown = replace(word.if_unknown, redelivered=True)
        record(database, word)

        record(database, replace(word, redelivered=True, if_unknown=unknown))

        assert len(rows(database, failed_imports)) == 1
        assert ledger_entries(database) == {"taken_off": 2, "failed_imports": 1, "redelivered": 1}

    @pytest.mark.parametrize(
        "values",
        [
            {"status": "archived"},
            {"status": "resolved", "resolution": "by_hand"},
        ],
        ids=lambda values: values.get("resolution", values["status"]),
    )
    def test_of_a_message_that_is_dealt_with_changes_nothing(self, database, values):
        first = failure()
        record(database, first)
        set_columns(database, unique_id(first), **values)
        before = only_message(database)

        record(database, confirmation(unique_id(first)))

        assert only_message(database) == before


class TestAConfirmationWithContent:
    """Anybody can write the headers of a confirmation on a message of his own."""

    CONTENT = failed_import(body=b"an order")

    @pytest.mark.parametrize("stage", ISSUED)
    def test_resolves_what_is_in_retry_issued(self, bench, stage):
        retry = bring_to(bench, stage)

        retry.confirm(if_idle=self.CONTENT)

        assert retry.message["resolution"] == "confirmed"
        assert rows(bench.db, failed_imports) == []

    def test_hides_no_failure_that_was_never_retried(self, database):
        first = failure()
        record(database, first)

        record(database, confirmation(unique_id(first), if_idle=self.CONTENT))

        (kept,) = rows(database, failed_imports)
        assert kept["body"] == b"an order"
        assert only_message(database)["status"] == "unresolved"

    def test_that_changes_nothing_is_kept(self, database):
        first = failure()
        record(database, first)

        word = confirmation(unique_id(first), succeeded_at=EARLIER, if_idle=self.CONTENT)
        record(database, word)

        (kept,) = rows(database, failed_imports)
        assert kept["body"] == b"an order"
        assert ledger_entries(database) == {"taken_off": 2, "new": 1, "failed_imports": 1}
        assert only_message(database)["status"] == "unresolved"

    def test_that_changes_nothing_and_died_in_a_queue_is_a_failure(self, database):
        first, died = failure(), failure(body=b"an order")
        record(database, first)

        word = confirmation(unique_id(first), succeeded_at=EARLIER, if_idle=died)
        record(database, word)

        assert messages(database).keys() == {unique_id(first), unique_id(died)}
        assert ledger_entries(database) == {"taken_off": 2, "new": 2}

    def test_that_changes_nothing_and_died_in_a_queue_is_one_failure_if_it_comes_again(
        self, database
    ):
        first, died = failure(), failure(body=b"an order")
        word = confirmation(unique_id(first), succeeded_at=EARLIER, if_idle=died)
        record(database, first, word)

        came_again = replace(died, redelivered=True)
        record(database, replace(word, redelivered=True, if_idle=came_again))

        assert ledger_entries(database) == {"taken_off": 3, "new": 2, "redelivered": 1}

    def test_that_has_resolved_its_message_is_no_failed_import_if_it_comes_again(self, bench):
        """A crash between commit and acknowledgement brings it again."""
        retry = bring_to(bench, SENT)
        word = confirmation(retry.key, if_idle=self.CONTENT)
        bench.receive(word)

        bench.receive(replace(word, redelivered=True))

        assert rows(bench.db, failed_imports) == []
        assert ledger_entries(bench.db)["confirmations"] == 2

    def test_is_no_redelivery_only_because_it_says_the_same(self, bench):
        retry = bring_to(bench, SENT)
        word = confirmation(retry.key, if_idle=self.CONTENT)
        bench.receive(word)

        bench.receive(word)

        assert len(rows(bench.db, failed_imports)) == 1


class TestAFailureAndAConfirmationInOneBatch:
    @pytest.mark.parametrize("failure_first", [True, False])
    def test_end_resolved_if_it_succeeded_later(self, database, failure_first):
        first = failure()
        batch = [first, confirmation(unique_id(first), succeeded_at=LATER)]

        record(database, *(batch if failure_first else reversed(batch)))

        assert only_message(database)["status"] == "resolved"

    @pytest.mark.parametrize("failure_first", [True, False])
    def test_end_unresolved_if_it_failed_later(self, bench, failure_first):
        retry = bring_to(bench, SENT)
        failed = again(retry.first, retry_id=retry.retry_id, time_of_failure=MUCH_LATER)
        batch = [failed, confirmation(retry.key, succeeded_at=LATER)]

        bench.receive(*(batch if failure_first else reversed(batch)))

        assert retry.message["status"] == "unresolved"

    @pytest.mark.parametrize("stage", STAGES)
    def test_count_the_claim_as_one(self, bench, stage):
        retry = bring_to(bench, stage)

        bench.receive(
            again(retry.first, retry_id=retry.retry_id, time_of_failure=LATER),
            confirmation(retry.key, succeeded_at=MUCH_LATER),
        )

        finished = retry.finish()
        assert retry.message["status"] == "resolved"
        assert finished["forwarded"] + finished["skipped"] == 1
        assert finished["state"] == "completed"


class TestAFailureAfterTheConfirmation:
    def test_is_seen_again(self, bench):
        retry = bring_to(bench, SENT)
        retry.confirm(succeeded_at=LATER)

        retry.fail(time_of_failure=MUCH_LATER)

        row = retry.message
        assert (row["status"], row["resolution"], row["resolved_at"]) == ("unresolved", None, None)

    def test_is_an_attempt_only_if_it_happened_before(self, bench):
        retry = bring_to(bench, SENT)
        retry.confirm(succeeded_at=MUCH_LATER)

        retry.fail(time_of_failure=LATER)

        assert retry.message["status"] == "resolved"
        assert retry.message["attempts"] == 2

    def test_is_seen_again_if_the_confirmation_gave_no_time(self, bench):
        """Our own time of its arrival must not stand for it."""
        retry = bring_to(bench, SENT)
        retry.confirm(succeeded_at=None, received_at=MUCH_LATER)

        retry.fail(time_of_failure=LATER)

        assert retry.message["status"] == "unresolved"

    def test_is_seen_again_though_an_earlier_host_had_a_clock_ahead(self, bench):
        retry = bring_to(bench, SENT, time_of_failure=MUCH_LATER)
        retry.confirm(succeeded_at=FAILED_AT)

        retry.fail(time_of_failure=LATER)

        assert retry.message["status"] == "unresolved"

    @pytest.mark.parametrize("resolution", ["by_hand", "presumed"])
    def test_is_outranked_by_no_decision_without_evidence(self, database, resolution):
        first = failure()
        record(database, first)
        set_columns(
            database,
            unique_id(first),
            status="resolved",
            resolution=resolution,
            resolved_at=MUCH_LATER,
        )

        record(database, again(first, time_of_failure=EARLIER))

        assert only_message(database)["status"] == "unresolved"

    def test_is_outranked_by_no_archiving(self, database):
        first = failure()
        record(database, first)
        set_columns(database, unique_id(first), status="archived", last_modified=MUCH_LATER)

        record(database, again(first, time_of_failure=EARLIER))

        assert only_message(database)["status"] == "unresolved"


class TestConfirmationsInOneBatch:
    def test_keep_each_its_own_time(self, database):
        times = [LATER, MUCH_LATER]
        failures = [failure() for _ in times]
        record(database, *failures)

        record(
            database,
            *(
                confirmation(unique_id(each), succeeded_at=at, received_at=at)
                for each, at in zip(failures, times, strict=True)
            ),
        )

        stored = messages(database)
        resolved = [stored[unique_id(each)] for each in failures]
        assert [each["resolved_at"] for each in resolved] == times
        assert [each["last_modified"] for each in resolved] == times

    def test_resolve_all_their_messages_in_one_statement(self, database):
        failures = [failure() for _ in range(20)]
        record(database, *failures)

        with statements(database) as noted:
            record(
                database,
                *(confirmation(unique_id(each), succeeded_at=LATER) for each in failures),
            )

        assert {each["status"] for each in messages(database).values()} == {"resolved"}
        assert sum(each.startswith("UPDATE failed_messages") for each in noted) == 1
        # One that is sent for each row is noted once, too: it would name its row.
        assert "failed_messages.number = confirmed.number" in " ".join(noted)
