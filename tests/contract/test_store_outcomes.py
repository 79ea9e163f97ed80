"""Outcomes of a retry: a failure of the claim in force, of another retry, or of none."""

from datetime import timedelta

import pytest

from retrier.store.schema import processing_attempts
from tests.contract.store_retries import (
    BEING_SENT,
    CLAIMED,
    ISSUED,
    SENT,
    STAGED,
    STAGES,
    bring_to,
)
from tests.contract.store_rows import again, rows
from tests.support.bench import Bench
from tests.support.factories import FAILED_AT

EARLIER = FAILED_AT - timedelta(minutes=5)
LATER = FAILED_AT + timedelta(minutes=5)
TIMES = pytest.mark.parametrize("failed_at", [EARLIER, None], ids=["earlier", "no time"])
OTHER_RETRY = "another retry"


@pytest.fixture
def bench(database):
    return Bench(database)


class TestAFailureOfTheClaimInForce:
    @TIMES
    @pytest.mark.parametrize("stage", STAGES)
    def test_is_its_outcome_whatever_its_time(self, bench, stage, failed_at):
        retry = bring_to(bench, stage)

        retry.fail(retry_id=retry.retry_id, time_of_failure=failed_at, exception_type="Outcome")

        assert retry.message["status"] == "unresolved"
        assert retry.message["exception_type"] == "Outcome"
        assert not retry.has_claim

    def test_takes_a_number_above_the_cut_off_of_its_operation(self, bench):
        retry = bring_to(bench, SENT)

        retry.fail(retry_id=retry.retry_id)

        assert retry.message["failure_seq"] > retry.operation["cut_off"]

    def test_never_shows_a_last_failure_before_the_first(self, bench):
        retry = bring_to(bench, SENT)

        retry.fail(retry_id=retry.retry_id, time_of_failure=EARLIER)

        assert retry.message["first_failure"] == retry.message["last_failure"] == EARLIER

    def test_leaves_the_message_free_for_the_next_retry(self, bench):
        retry = bring_to(bench, SENT)
        retry.fail(retry_id=retry.retry_id)

        second = bench.ask([retry.key])
        bench.work()

        assert bench.operation(second)["forwarded"] == 1


class TestAFailureOfAnotherRetry:
    @TIMES
    @pytest.mark.parametrize("stage", STAGES)
    def test_touches_neither_status_nor_claim(self, bench, stage, failed_at):
        retry = bring_to(bench, stage)
        before = retry.message["status"]

        retry.fail(retry_id=OTHER_RETRY, time_of_failure=failed_at)

        assert retry.message["status"] == before
        assert retry.has_claim

    def test_is_kept_as_an_attempt(self, bench):
        retry = bring_to(bench, SENT)

        failed = retry.fail(retry_id=OTHER_RETRY)

        kept = [row["fingerprint"] for row in rows(bench.db, processing_attempts)]
        assert failed.fingerprint in kept
        assert retry.message["attempts"] == 2

    def test_replaces_no_details(self, bench):
        retry = bring_to(bench, SENT)

        retry.fail(retry_id=OTHER_RETRY, time_of_failure=LATER, exception_type="Stale")

        assert retry.message["exception_type"] == retry.first.details.exception_type


def test_a_failure_of_another_retry_is_not_hidden_by_an_older_confirmation(database):
    """Two copies of an earlier retry: one succeeded, then the other failed; the claim goes on."""
    retry = bring_to(Bench(database), CLAIMED)
    retry.fail(retry_id=OTHER_RETRY, time_of_failure=FAILED_AT + timedelta(hours=2))

    retry.confirm(succeeded_at=FAILED_AT + timedelta(hours=1))

    assert retry.message["status"] == "unresolved"
    assert retry.has_claim


class TestAFailureWithoutRetryId:
    @TIMES
    @pytest.mark.parametrize("stage", ISSUED)
    def test_of_a_message_in_retry_issued_is_its_outcome(self, bench, stage, failed_at):
        retry = bring_to(bench, stage)

        retry.fail(time_of_failure=failed_at)

        assert retry.message["status"] == "unresolved"
        assert not retry.has_claim

    @pytest.mark.parametrize("failed_at", [FAILED_AT, LATER, None], ids=["tie", "later", "no time"])
    def test_of_a_claimed_message_ends_the_claim_unless_it_is_older(self, bench, failed_at):
        retry = bring_to(bench, CLAIMED)

        retry.fail(time_of_failure=failed_at)

        assert not retry.has_claim

    def test_of_a_claimed_message_leaves_the_claim_if_it_is_older(self, bench):
        retry = bring_to(bench, CLAIMED)

        retry.fail(time_of_failure=EARLIER)

        assert retry.has_claim

    def test_in_one_batch_with_the_outcome_counts_the_claim_once(self, bench):
        retry = bring_to(bench, BEING_SENT)

        retry.bench.receive(
            again(retry.first, retry_id=retry.retry_id),
            again(retry.first, time_of_failure=LATER),
        )

        assert retry.finish()["forwarded"] == 1


class TestAnOutcomeCountsForwarded:
    @pytest.mark.parametrize("outcome", ["failure", "confirmation"])
    @pytest.mark.parametrize("stage", [BEING_SENT, SENT])
    def test_exactly_once(self, bench, stage, outcome):
        retry = bring_to(bench, stage)

        if outcome == "failure":
            retry.fail(retry_id=retry.retry_id)
        else:
            retry.confirm()

        counted = retry.operation["forwarded"]
        finished = retry.finish()
        assert counted == 1
        assert (finished["forwarded"], finished["skipped"], finished["failed"]) == (1, 0, 0)
        assert finished["state"] == "completed"

    @pytest.mark.parametrize("stage", [CLAIMED, STAGED])
    def test_not_at_all_before_the_claim_is_stamped(self, bench, stage):
        retry = bring_to(bench, stage)

        retry.fail(time_of_failure=LATER)

        finished = retry.finish()
        assert (finished["forwarded"], finished["skipped"]) == (0, 1)
        assert finished["state"] == "completed"

    def test_for_the_operation_of_its_own_claim_only(self, bench):
        earlier = bring_to(bench, SENT)
        earlier.confirm()

        retry = bring_to(bench, BEING_SENT)
        retry.confirm()

        assert (earlier.operation["forwarded"], retry.operation["forwarded"]) == (1, 1)
