"""The fold of a received batch: which message a failure is of, and what the batch changes."""

from dataclasses import replace
from datetime import timedelta

import pytest

from retrier.domain.failed_message import (
    Confirmation,
    FailedMessageStatus,
    Failure,
    LastWord,
    Resolution,
)
from retrier.domain.folding import as_stored, fold, ids_apart
from retrier.domain.recording import (
    Before,
    Known,
    MessageChange,
    Receipt,
    Standing,
    StoredAttempt,
    StoredMessage,
)
from tests.support.factories import FAILED_AT, confirmation, failed_import, failure, unique_id

NEW_ID = "made up"
EARLIER = FAILED_AT - timedelta(minutes=1)
LATER = FAILED_AT + timedelta(minutes=1)
CONFIRMED_AT = FAILED_AT + timedelta(hours=1)
MUCH_LATER = CONFIRMED_AT + timedelta(hours=1)
ISSUED = FailedMessageStatus.RETRY_ISSUED
RESOLVED = FailedMessageStatus.RESOLVED
UNRESOLVED = FailedMessageStatus.UNRESOLVED


def stored(first: Failure, **changes: object) -> StoredMessage:
    """Return a message that is unresolved, or as `changes` of it and of its state say."""
    state: dict[str, object] = {
        "status": UNRESOLVED,
        "claim": None,
        "last_failure": FAILED_AT,
        "resolution": None,
        "confirmed_at": None,
        "word": None,
    }
    state |= {name: changes.pop(name) for name in state.keys() & changes.keys()}
    values: dict[str, object] = {
        "unique_message_id": unique_id(first),
        "message_id": first.message_id,
        "body_hash": first.body_hash,
        "last_retry_id": None,
        "failure_count": 1,
        "first": as_stored(first),
        "newest": as_stored(first),
    }
    return StoredMessage(known=Known(**state), **(values | changes))  # type: ignore[arg-type]


def issued(first: Failure, retry_id: str = "r1", **changes: object) -> StoredMessage:
    """Return a message whose retry was sent and has no outcome yet."""
    sent: dict[str, object] = {"status": ISSUED, "claim": retry_id, "last_retry_id": retry_id}
    return stored(first, **(sent | changes))


def folded(*arrived: Failure | Confirmation, known: tuple[StoredMessage, ...] = ()) -> Receipt:
    return folded_before(Before(stored={each.unique_message_id: each for each in known}), *arrived)


def folded_before(before: Before, *arrived: Failure | Confirmation) -> Receipt:
    failures = [each for each in arrived if isinstance(each, Failure)]
    confirmations = [each for each in arrived if isinstance(each, Confirmation)]
    return fold(failures, confirmations, before, lambda: NEW_ID)


class TestConfirmations:
    def test_resolve_the_messages_whose_retries_were_sent(self):
        one, two = failure(), failure()
        said = [confirmation(unique_id(each)) for each in (one, two)]

        receipt = folded(*said, known=(issued(one), issued(two)))

        assert receipt.confirmations == 2
        assert receipt.changes == tuple(
            MessageChange(
                unique_message_id=each.unique_message_id,
                is_new=False,
                confirmation=each,
                claim_ends=True,
            )
            for each in said
        )

    def test_of_a_message_that_failed_elsewhere_meanwhile_resolve_nothing(self):
        first = failure(queue="orders")
        newest = as_stored(replace(first, details=replace(first.details, queue="mail")))
        said = confirmation(unique_id(first))

        assert folded(said, known=(stored(first, newest=newest),)).changes == ()
        assert folded(said, known=(issued(first, newest=newest),)).changes != ()

    def test_with_content_resolve_only_what_waits_for_an_outcome(self):
        first = failure()
        said = confirmation(unique_id(first), if_idle=failure())

        assert folded(said, known=(issued(first),)).attempts == ()
        assert folded(said, known=(stored(first),)).attempts != ()

    def test_of_no_message_are_failed_imports(self):
        said = confirmation("nobody's")

        receipt = folded(said)

        assert (receipt.imports, receipt.confirmations) == ((said.if_unknown,), 0)

    def test_that_change_nothing_are_counted(self):
        first = failure()
        old = confirmation(unique_id(first), succeeded_at=EARLIER)

        receipt = folded(old, old, known=(stored(first),))

        assert (receipt.confirmations, receipt.changes) == (2, ())

    @pytest.mark.parametrize(
        ("redelivered", "succeeded_at", "kept"),
        [(True, CONFIRMED_AT, 0), (False, CONFIRMED_AT, 1), (True, LATER, 1), (True, None, 1)],
    )
    def test_that_change_nothing_are_kept_for_their_content_if_it_is_new(
        self, redelivered, succeeded_at, kept
    ):
        first = failure()
        confirmed = {"resolution": Resolution.CONFIRMED, "confirmed_at": CONFIRMED_AT}
        known = stored(first, status=RESOLVED, **confirmed)
        told = {"redelivered": redelivered, "succeeded_at": succeeded_at}

        failed = folded(confirmation(unique_id(first), if_idle=failure(), **told), known=(known,))
        content = failed_import()
        unread = folded(confirmation(unique_id(first), if_idle=content, **told), known=(known,))

        assert (len(failed.attempts), failed.confirmations) == (kept, 1 - kept)
        assert (unread.imports, unread.confirmations) == ((content,) * kept, 1 - kept)

    def test_without_a_time_did_not_confirm_what_a_person_resolved(self):
        first = failure()
        known = stored(first, status=RESOLVED, resolution=Resolution.BY_HAND)
        said = confirmation(
            unique_id(first), if_idle=failure(), redelivered=True, succeeded_at=None
        )

        assert len(folded(said, known=(known,)).attempts) == 1

    def test_that_come_twice_in_one_batch_resolve_once(self):
        first = failure()
        said = confirmation(unique_id(first), if_idle=failure())

        receipt = folded(said, replace(said, redelivered=True), known=(issued(first),))

        assert (receipt.confirmations, receipt.attempts) == (2, ())

    @pytest.mark.parametrize(("failed_at", "counted"), [(LATER, None), (MUCH_LATER, 2)])
    def test_are_what_a_failure_behind_them_meets(self, failed_at, counted):
        """One with content that changes nothing is a failure, behind all others."""
        first = failure()
        again = replace(
            first, retry_id="r1", details=replace(first.details, time_of_failure=failed_at)
        )
        idle = confirmation(unique_id(first), if_idle=again)

        (attempt,) = folded(
            confirmation(unique_id(first)), idle, known=(stored(first, claim="r1"),)
        ).attempts

        assert (attempt.unique_message_id, attempt.failures) == (unique_id(first), counted)
        assert attempt.standing == (Standing(status=RESOLVED) if counted else None)


class TestTheCopyOfAStoredFailure:
    def test_is_only_counted_if_it_is_a_redelivery(self):
        first = replace(failure(), redelivered=True)
        before = Before(
            stored={unique_id(first): stored(first)},
            seen={first.fingerprint: frozenset({unique_id(first)})},
        )

        receipt = folded_before(before, first, first)
        not_again = folded_before(before, replace(first, redelivered=False))

        assert (receipt.redelivered, receipt.attempts) == (2, ())
        assert (not_again.redelivered, not_again.repeated) == (0, 1)

    def test_is_none_if_the_stored_one_is_of_another_message(self):
        first = replace(failure(), redelivered=True)
        before = Before(stored={}, seen={first.fingerprint: frozenset({"another"})})

        receipt = folded_before(before, first)

        assert (receipt.redelivered, receipt.new) == (0, 1)


def test_a_failure_is_compared_by_what_was_sent_and_where_it_failed():
    made = failure(queue="orders", destination="shop", endpoint="Sales", retry_id="r1")

    assert as_stored(made) == StoredAttempt(
        raw=made.raw,
        queue="orders",
        destination="shop",
        endpoint="Sales",
        message_type="Shop.PlaceOrder",
        retry_id="r1",
    )


class TestANewMessage:
    def test_is_a_change_with_its_failure(self):
        first = failure()

        receipt = folded(first)

        (attempt,) = receipt.attempts
        assert receipt.changes == (
            MessageChange(
                unique_message_id=unique_id(first),
                is_new=True,
                attempts_added=1,
                first_failure=FAILED_AT,
                details=attempt,
            ),
        )
        assert (receipt.new, receipt.repeated) == (1, 0)
        assert (attempt.failures, attempt.standing, attempt.derived_from) == (1, None, None)

    def test_without_any_id_gets_one_that_is_made_up(self):
        (attempt,) = folded(failure(message_id=None)).attempts

        assert attempt.unique_message_id == NEW_ID

    def test_gets_the_id_that_it_names(self):
        (attempt,) = folded(failure(stamped_id="named")).attempts

        assert attempt.unique_message_id == "named"

    def test_that_fails_twice_at_once_is_one_with_its_newest_failure(self):
        first = failure()

        receipt = folded(first, replace(first, error_queue="other"))

        (change,) = receipt.changes
        assert (receipt.new, receipt.repeated) == (1, 1)
        assert (change.is_new, change.attempts_added) == (True, 2)
        assert change.details is receipt.attempts[1]
        assert receipt.attempts[1].standing == Standing(status=UNRESOLVED)

    def test_keeps_its_newest_failure_before_one_that_comes_late(self):
        first = failure()
        late = replace(first, details=replace(first.details, time_of_failure=EARLIER))

        assert [each.failures for each in folded(first, late).attempts] == [1, None]

    def test_stays_what_it_may_be_a_copy_of_when_it_fails_twice_at_once(self):
        first = failure()
        before = Before(stored={}, namesakes={first.fingerprint: ("alike",)})

        receipt = folded_before(before, first, replace(first, redelivered=False))

        assert [each.maybe_copy_of for each in receipt.attempts] == ["alike", "alike"]

    def test_is_known_again_though_its_library_changed_its_body(self):
        said = {"task": "pay", "id": "m", "Shop.Tenant": "a"}
        first = failure(message_id="m", headers=said, body=b"[[1], {}, 1]")
        again = failure(message_id="m", headers=said, body=b"[[1], {}, 2]")

        assert folded(first, again).new == 1


class TestAnotherMessage:
    """It carries the stamps of a message of which it is no failure."""

    def other(self, first: Failure, **changes: object) -> Failure:
        return failure(stamped_id=unique_id(first), **changes)

    def test_has_its_own_id_and_says_whose_stamps_it_carries(self):
        first = failure()
        other = self.other(first)

        (attempt,) = folded(other, known=(stored(first),)).attempts

        assert attempt.unique_message_id == other.computed_id
        assert attempt.derived_from == unique_id(first)

    def test_without_a_message_id_has_one_that_is_made_up(self):
        first = failure()
        other = self.other(first, message_id=None)

        (attempt,) = folded(other, known=(stored(first),)).attempts

        assert (attempt.unique_message_id, attempt.derived_from) == (NEW_ID, unique_id(first))

    def test_is_derived_from_nothing_once_it_is_stored_itself(self):
        first = failure()
        other = self.other(first)
        known = stored(first), replace(stored(other), unique_message_id=other.computed_id)

        (attempt,) = folded(other, known=known).attempts

        assert attempt.derived_from is None

    def test_with_a_message_id_in_use_is_told_apart_by_its_body_and_then_by_everything(self):
        used = failure(message_id="m", body=b"1")
        second = failure(message_id="m", body=b"2")
        third = failure(message_id="m", body=b"2", queue="mail")

        receipt = folded(second, third, known=(stored(used),))

        assert receipt.new == 2
        assert [each.unique_message_id for each in receipt.attempts] == [
            ids_apart(second)[0],
            ids_apart(third)[1],
        ]

    def test_with_a_message_id_in_use_says_whose_stamps_it_carries_too(self):
        used = failure(message_id="m", body=b"1")
        other = failure(message_id="m", body=b"2", stamped_id=unique_id(used))

        (attempt,) = folded(other, known=(stored(used),)).attempts

        assert attempt.derived_from == unique_id(used)

    @pytest.mark.parametrize(
        ("known", "retry_id", "counted"),
        [
            ({"status": ISSUED, "claim": "r1"}, "r1", 5),
            ({"status": ISSUED, "claim": "r1"}, None, 5),
            ({"issued": frozenset({"r1"})}, "r1", 5),
            ({"counted": frozenset({"r1"}), "issued": frozenset({"r1"})}, "r1", 4),
            ({}, "nobody remembers it", 5),
            ({}, None, 1),
        ],
    )
    def test_counts_the_failures_of_the_message_under_whose_retry_it_came(
        self, known, retry_id, counted
    ):
        first = failure()
        before = stored(first, failure_count=4, **known)

        (attempt,) = folded(self.other(first, retry_id=retry_id), known=(before,)).attempts

        assert attempt.failures == counted

    def test_that_fails_twice_at_once_counts_on(self):
        first = failure()
        other = self.other(first, retry_id="r1")
        before = issued(first, failure_count=4)

        receipt = folded(other, replace(other, retry_id=None), known=(before,))

        assert [each.failures for each in receipt.attempts] == [5, 6]

    @pytest.mark.parametrize("retry_id", ["r1", None])
    def test_meets_a_persons_word_about_the_message_under_whose_retry_it_came(self, retry_id):
        first = failure()
        said = {"status": FailedMessageStatus.ARCHIVED, "word": LastWord.ARCHIVED}
        before = stored(first, issued=frozenset({"r1"}), **said)

        (attempt,) = folded(self.other(first, retry_id=retry_id), known=(before,)).attempts

        standing = Standing(
            status=FailedMessageStatus.ARCHIVED, word=LastWord.ARCHIVED, of=unique_id(first)
        )
        assert attempt.standing == (standing if retry_id else None)

    def test_meets_no_word_where_nobody_said_one(self):
        first = failure()

        (attempt,) = folded(self.other(first, retry_id="r1"), known=(issued(first),)).attempts

        assert attempt.standing is None

    def test_meets_it_again_when_it_fails_twice_at_once(self):
        first = failure()
        said = {"status": FailedMessageStatus.ARCHIVED, "word": LastWord.ARCHIVED}
        before = stored(first, issued=frozenset({"r1"}), **said)
        other = self.other(first, retry_id="r1")

        _, again = folded(other, other, known=(before,)).attempts

        assert again.word is LastWord.ARCHIVED


class TestWhatItMayBeACopyOf:
    def test_without_any_id_is_the_first_message_with_the_same_bytes(self):
        first = replace(failure(message_id=None), redelivered=True)
        before = Before(stored={}, seen={first.fingerprint: frozenset({"b", "a"})})

        (attempt,) = folded_before(before, first).attempts

        assert attempt.maybe_copy_of == "a"

    def test_without_any_id_is_one_that_came_with_them_on_another_error_queue(self):
        first = failure(message_id=None)
        before = Before(stored={}, elsewhere={first.fingerprint: "there"})

        assert folded_before(before, first).attempts[0].maybe_copy_of == "there"
        assert folded_before(before, failure()).attempts[0].maybe_copy_of is None

    def test_with_its_own_id_is_a_namesake_and_not_itself(self):
        first = failure()
        alike = {first.fingerprint: (unique_id(first), "alike")}

        (attempt,) = folded_before(Before(stored={}, namesakes=alike), first).attempts

        assert attempt.maybe_copy_of == "alike"

    @pytest.mark.parametrize(
        ("changes", "is_copy"),
        [
            ({}, True),
            ({"message_type": "Shop.CancelOrder"}, False),
            ({"queue": "mail"}, False),
            ({"body": b"2"}, False),
            ({"retry_id": "r9"}, False),
        ],
        ids=str,
    )
    def test_with_an_id_in_use_is_the_message_that_has_it_if_only_headers_differ(
        self, changes, is_copy
    ):
        used = failure(message_id="m", body=b"1", headers={"page": 1})
        other = failure(**{"message_id": "m", "body": b"1", "headers": {"page": 2}} | changes)

        (attempt,) = folded(other, known=(stored(used),)).attempts

        assert attempt.maybe_copy_of == (unique_id(used) if is_copy else None)

    def test_with_the_id_that_it_names_is_nothing(self):
        (attempt,) = folded(failure(message_id=None, stamped_id="named")).attempts

        assert attempt.maybe_copy_of is None

    def test_stays_until_a_person_retries_it(self):
        first = failure()
        again = replace(first, retry_id="r1")

        open_still = folded(first, first, known=(stored(first, maybe_copy_of="alike"),)).attempts
        retried = folded(again, again, known=(issued(first, maybe_copy_of="alike"),)).attempts

        assert [each.maybe_copy_of for each in open_still] == ["alike", "alike"]
        assert [each.maybe_copy_of for each in retried] == [None, None]


class TestAMessageThatFailsAgain:
    def test_is_unresolved_with_the_new_failure_and_its_claim_ends(self):
        first = failure()
        again = replace(first, retry_id="r1", redelivered=True)

        receipt = folded(again, known=(issued(first),))

        (attempt,) = receipt.attempts
        assert receipt.changes == (
            MessageChange(
                unique_message_id=unique_id(first),
                is_new=False,
                attempts_added=1,
                first_failure=FAILED_AT,
                details=attempt,
                claim_ends=True,
            ),
        )
        assert attempt.standing == Standing(status=ISSUED)
        assert (receipt.new, receipt.repeated) == (0, 1)

    def test_under_a_retry_that_it_counts_is_a_copy(self):
        first = failure()
        known = stored(first, issued=frozenset({"r1"}), counted=frozenset({"r1"}))

        (attempt,) = folded(replace(first, retry_id="r1"), known=(known,)).attempts

        assert attempt.standing == Standing(status=UNRESOLVED, is_copy=True)

    def test_takes_back_what_confirmed_it_in_the_same_batch(self):
        """What fails behind a confirmation is one with content that changed nothing."""
        first = failure()
        said = confirmation(unique_id(first), succeeded_at=LATER)
        late = failure(message_id=first.message_id, body=first.body, time_of_failure=CONFIRMED_AT)
        again = replace(late, raw=first.raw)
        idle = confirmation(unique_id(first), if_idle=again)

        (change,) = folded(said, idle, known=(issued(first),)).changes

        assert change.confirmation is None
        assert change.details is not None

    def test_with_what_came_late_keeps_its_details_and_the_later_time(self):
        first = failure()
        late = replace(first, details=replace(first.details, time_of_failure=EARLIER))

        receipt = folded(late, late, known=(stored(first),))

        assert receipt.changes == (
            MessageChange(
                unique_message_id=unique_id(first),
                is_new=False,
                attempts_added=2,
                first_failure=EARLIER,
                last_failure=FAILED_AT,
            ),
        )
        assert [each.standing for each in receipt.attempts] == [None, None]

    @pytest.mark.parametrize(
        ("last", "failed_at", "expected"),
        [(FAILED_AT, LATER, LATER), (FAILED_AT, None, FAILED_AT), (None, LATER, None)],
    )
    def test_under_another_retry_than_its_claim_has_the_later_time(self, last, failed_at, expected):
        first = failure()
        other = replace(
            first, retry_id="r0", details=replace(first.details, time_of_failure=failed_at)
        )
        known = issued(first, last_failure=last, issued=frozenset({"r0"}))

        (change,) = folded(other, known=(known,)).changes

        assert (change.details, change.last_failure) == (None, expected)

    def test_remembers_the_later_time_for_what_comes_next(self):
        first = failure()
        times = [LATER, FAILED_AT]
        others = [
            replace(first, retry_id="r0", details=replace(first.details, time_of_failure=time))
            for time in times
        ]
        known = issued(first, issued=frozenset({"r0"}))

        (change,) = folded(*others, known=(known,)).changes

        assert change.last_failure == LATER

    def test_shows_the_earliest_of_its_failures_as_the_first(self):
        first = failure()
        times = [LATER, EARLIER, FAILED_AT]
        failures = [
            replace(first, details=replace(first.details, time_of_failure=time)) for time in times
        ]

        (change,) = folded(*failures, known=(stored(first, last_failure=None),)).changes

        assert (change.first_failure, change.attempts_added) == (EARLIER, 3)

    def test_is_compared_with_its_newest_failure_next(self):
        first = failure(message_id="m", headers={"tenant": "a"})
        said = {"message_id": "n", "body": first.body, "stamped_id": unique_id(first)}
        outcome = failure(**said, headers={"tenant": "a", "added": "b"}, retry_id="r1")
        published_again = replace(outcome, retry_id=None)

        receipt = folded(outcome, published_again, known=(issued(first),))

        assert {each.unique_message_id for each in receipt.attempts} == {unique_id(first)}

    def test_is_known_by_the_retry_that_it_has_ended(self):
        first = failure()

        receipt = folded(first, replace(first, retry_id="r1"), known=(stored(first, claim="r1"),))

        assert {each.unique_message_id for each in receipt.attempts} == {unique_id(first)}

    def test_is_compared_with_its_first_failure_under_a_retry_next(self):
        """A consumer sent on what it had been sent, and both failed: the second one is another."""
        first = failure(queue="orders")
        on = {"message_id": first.message_id, "body": first.body, "raw": first.raw}
        moved = failure(**on, queue="mail", retry_id="r1")

        receipt = folded(moved, moved, replace(first, retry_id="r1"), known=(issued(first),))

        names = [each.unique_message_id for each in receipt.attempts]
        assert names[:2] == [unique_id(first)] * 2
        assert names[2] != unique_id(first)

    def test_meets_a_persons_word_each_time(self):
        first = failure()

        receipt = folded(first, first, known=(stored(first, word=LastWord.DEAD),))

        assert [each.word for each in receipt.attempts] == [LastWord.DEAD] * 2

    def test_is_known_by_the_body_of_its_newest_failure_next(self):
        said = {"task": "pay", "id": "m", "Shop.Tenant": "a"}
        bodies = [b"[[1], {}, %d]" % number for number in range(3)]
        first, second, third = (
            failure(message_id="m", headers=said, body=body, retry_id=retry)
            for body, retry in zip(bodies, (None, "r1", "r1"), strict=True)
        )

        receipt = folded(second, third, known=(issued(first, body=bodies[0]),))

        assert {each.unique_message_id for each in receipt.attempts} == {unique_id(first)}
