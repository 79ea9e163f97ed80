"""How many failures a message counts: the fold of a received batch."""

from datetime import timedelta

import pytest

from retrier.domain.failed_message import FailedMessageStatus, Failure
from retrier.domain.folding import as_stored, fold
from retrier.domain.recording import Before, Known, StoredMessage, count_failure
from tests.support.factories import FAILED_AT, confirmation, failure, unique_id

LATER = FAILED_AT + timedelta(minutes=1)
EARLIER = FAILED_AT - timedelta(minutes=1)


def again(first: Failure, **changes: object) -> Failure:
    return failure(message_id=first.message_id, body=first.body, **changes)


def stored(
    first: Failure, count: int, *, claim: str | None = None, counted: frozenset[str] = frozenset()
) -> Before:
    issued = FailedMessageStatus.RETRY_ISSUED if claim else FailedMessageStatus.UNRESOLVED
    known = Known(
        status=issued, claim=claim, last_failure=FAILED_AT, resolution=None, confirmed_at=None
    )
    message = StoredMessage(
        unique_message_id=unique_id(first),
        number=1,
        message_id=first.message_id,
        body_hash=first.body_hash,
        last_retry_id=claim,
        known=known,
        failure_count=count,
        issued=frozenset({"r1", "r2", "r3"}),
        counted=counted,
        first=as_stored(first),
        newest=as_stored(first),
    )
    return Before(stored={message.unique_message_id: message})


def counts(before: Before, *failures: Failure) -> list[int | None]:
    """Return the count of each failure, in order of arrival."""
    receipt = fold(failures, (), before, lambda: "new")
    return [attempt.failures for attempt in receipt.attempts]


NOTHING = Before(stored={})


def test_the_first_failure_counts_one():
    assert counts(NOTHING, failure()) == [1]


def test_failures_of_one_batch_count_one_after_the_other():
    first = failure()

    assert counts(NOTHING, first, again(first), again(first)) == [1, 2, 3]


def test_the_failure_of_a_retry_by_policy_counts_one_more():
    first = failure()

    assert counts(stored(first, 2, claim="r1"), again(first, retry_id="r1")) == [3]


def test_the_first_failure_after_a_persons_retry_counts_one():
    first = failure()

    assert counts(stored(first, 0, claim="r1"), again(first, retry_id="r1")) == [1]


def test_a_retry_that_was_counted_is_not_counted_again():
    first = failure()
    before = stored(first, 2, counted=frozenset({"r1"}))

    assert counts(before, again(first, retry_id="r1")) == [2]


def test_two_copies_of_a_retry_in_one_batch_count_once():
    first = failure()
    copies = [again(first, retry_id="r1"), again(first, retry_id="r1")]

    assert counts(stored(first, 1, claim="r1"), *copies) == [2, 2]


def test_two_copies_of_a_retry_of_a_message_that_is_new_count_once():
    first = failure(retry_id="r1")

    assert counts(NOTHING, first, again(first, retry_id="r1")) == [1, 1]


def test_a_retry_whose_failure_did_not_name_it_is_not_counted_again():
    first = failure()
    copies = [again(first), again(first, retry_id="r1")]

    assert counts(stored(first, 1, claim="r1"), *copies) == [2, 2]


def test_another_retry_counts_although_one_was_counted():
    first = failure()
    before = stored(first, 2, counted=frozenset({"r1"}))

    assert counts(before, again(first, retry_id="r2")) == [3]


@pytest.mark.parametrize(
    "changes", [{"retry_id": "r2"}, {"retry_id": "r2", "time_of_failure": LATER}]
)
def test_a_failure_of_another_retry_than_the_claim_counts_nothing(changes):
    first = failure()

    assert counts(stored(first, 1, claim="r1"), again(first, **changes)) == [None]


def test_a_failure_that_came_late_counts_nothing():
    first = failure()

    assert counts(stored(first, 1), again(first, time_of_failure=EARLIER)) == [None]


def test_what_counts_nothing_does_not_use_its_retry_up():
    first = failure()
    late = again(first, retry_id="r1", time_of_failure=EARLIER)

    assert counts(stored(first, 1), late, again(first, retry_id="r1")) == [None, 2]


def test_a_failure_that_is_confirmed_in_the_same_batch_counts_all_the_same():
    first = failure()
    before = stored(first, 2, claim="r1")
    succeeded = confirmation(unique_id(first), if_idle=None)

    receipt = fold([again(first, retry_id="r1")], [succeeded], before, lambda: "new")

    assert [attempt.failures for attempt in receipt.attempts] == [3]


@pytest.mark.parametrize(
    ("before", "counted", "after"), [(0, False, 1), (0, True, 1), (4, False, 5), (4, True, 4)]
)
def test_an_unresolved_message_has_failed_at_least_once(before, counted, after):
    assert count_failure(before, counted=counted) == after
