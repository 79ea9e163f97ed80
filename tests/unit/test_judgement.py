"""Cause decides before clock: what a failure or a confirmation means for a known message."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from retrier.domain.failed_message import FailedMessageStatus, Resolution
from retrier.domain.recording import Known, Verdict, confirmation_resolves, judge_failure

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
EARLIER = NOON - timedelta(minutes=5)
LATER = NOON + timedelta(minutes=5)

UNRESOLVED = FailedMessageStatus.UNRESOLVED
RETRY_ISSUED = FailedMessageStatus.RETRY_ISSUED
RESOLVED = FailedMessageStatus.RESOLVED
ARCHIVED = FailedMessageStatus.ARCHIVED

TIMES = pytest.mark.parametrize(
    "failed_at", [EARLIER, NOON, LATER, None], ids=["earlier", "tie", "later", "no time"]
)


def known(status: FailedMessageStatus = UNRESOLVED, **changes: Any) -> Known:
    values = {"claim": None, "last_failure": NOON, "resolution": None, "confirmed_at": None}
    return Known(status=status, **(values | changes))


def becomes_unresolved(message: Known, failed_at: datetime | None, retry_id: str | None) -> bool:
    verdict = judge_failure(message, retry_id=retry_id, failed_at=failed_at)
    return verdict is Verdict.BECOMES_UNRESOLVED


@TIMES
@pytest.mark.parametrize("status", [UNRESOLVED, RETRY_ISSUED])
def test_a_failure_of_the_claim_in_force_is_its_outcome_whatever_its_time(status, failed_at):
    assert becomes_unresolved(known(status, claim="r1"), failed_at, "r1")


@TIMES
@pytest.mark.parametrize("status", [UNRESOLVED, RETRY_ISSUED])
def test_a_failure_of_another_retry_touches_no_claim_in_force(status, failed_at):
    assert not becomes_unresolved(known(status, claim="r2"), failed_at, "r1")


@TIMES
@pytest.mark.parametrize("claim", ["r1", None])
def test_a_failure_without_retry_id_of_a_message_in_retry_issued_is_its_outcome(claim, failed_at):
    assert becomes_unresolved(known(RETRY_ISSUED, claim=claim), failed_at, None)


@TIMES
def test_a_failure_of_an_ended_retry_of_a_message_in_retry_issued_is_its_outcome(failed_at):
    assert becomes_unresolved(known(RETRY_ISSUED), failed_at, "r1")


@TIMES
@pytest.mark.parametrize("resolution", [Resolution.PRESUMED, Resolution.BY_HAND, None])
def test_a_presumption_or_a_decision_by_hand_never_outranks_a_failure(resolution, failed_at):
    assert becomes_unresolved(known(RESOLVED, resolution=resolution), failed_at, None)


@TIMES
def test_an_archived_message_that_fails_again_is_seen_again(failed_at):
    assert becomes_unresolved(known(ARCHIVED), failed_at, None)


@pytest.mark.parametrize("retry_id", ["r1", None])
@pytest.mark.parametrize("status", [UNRESOLVED, RESOLVED])
class TestWhereNoCauseDecidesTheTimesDo:
    @pytest.fixture
    def message(self, status: FailedMessageStatus) -> Known:
        resolution = Resolution.CONFIRMED if status is RESOLVED else None
        return known(status, resolution=resolution)

    def test_a_later_failure_ends_unresolved(self, message, retry_id):
        assert becomes_unresolved(message, LATER, retry_id)

    def test_an_older_failure_is_an_attempt_only(self, message, retry_id):
        assert not becomes_unresolved(message, EARLIER, retry_id)

    def test_a_tie_ends_unresolved(self, message, retry_id):
        assert becomes_unresolved(message, NOON, retry_id)

    def test_a_missing_time_ends_unresolved(self, message, retry_id):
        assert becomes_unresolved(message, None, retry_id)


def test_without_a_stored_time_a_failure_ends_unresolved():
    assert becomes_unresolved(known(last_failure=None), EARLIER, None)


def test_a_failure_before_the_confirmation_is_an_attempt_only():
    message = known(RESOLVED, resolution=Resolution.CONFIRMED, confirmed_at=LATER)

    assert not becomes_unresolved(message, NOON + timedelta(minutes=1), None)


def test_a_failure_after_the_confirmation_ends_unresolved():
    message = known(RESOLVED, resolution=Resolution.CONFIRMED, confirmed_at=LATER)

    assert becomes_unresolved(message, LATER + timedelta(minutes=1), None)


def test_a_confirmation_without_the_failures_time_still_gives_one_to_compare_with():
    message = known(RESOLVED, resolution=Resolution.CONFIRMED, last_failure=None, confirmed_at=NOON)

    assert not becomes_unresolved(message, EARLIER, None)


def test_a_failure_without_retry_id_of_a_claimed_message_is_judged_by_time():
    assert not becomes_unresolved(known(UNRESOLVED, claim="r1"), EARLIER, None)


@pytest.mark.parametrize("succeeded_at", [EARLIER, NOON, LATER, None])
def test_a_confirmation_resolves_a_message_in_retry_issued(succeeded_at):
    assert confirmation_resolves(known(RETRY_ISSUED, claim="r1"), succeeded_at=succeeded_at)


@pytest.mark.parametrize(
    ("succeeded_at", "resolves"),
    [(EARLIER, False), (NOON, False), (LATER, True), (None, False)],
    ids=["earlier", "tie", "later", "no time"],
)
def test_a_confirmation_resolves_an_unresolved_message_only_if_it_is_later(succeeded_at, resolves):
    assert confirmation_resolves(known(UNRESOLVED), succeeded_at=succeeded_at) is resolves


def test_a_confirmation_cannot_be_later_than_a_failure_without_time():
    assert not confirmation_resolves(known(last_failure=None), succeeded_at=LATER)


@pytest.mark.parametrize("status", [RESOLVED, ARCHIVED])
def test_a_confirmation_changes_nothing_that_is_dealt_with(status):
    assert not confirmation_resolves(known(status), succeeded_at=LATER)


@pytest.mark.parametrize("succeeded_at", [EARLIER, NOON, LATER, None])
def test_a_late_confirmation_outranks_a_presumption_whatever_its_time(succeeded_at):
    presumed = known(RESOLVED, resolution=Resolution.PRESUMED)

    assert confirmation_resolves(presumed, succeeded_at=succeeded_at)
