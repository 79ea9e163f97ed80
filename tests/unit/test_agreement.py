"""Whose failure it is, for everything that can be said of a failure and a stored message."""

from dataclasses import replace
from itertools import product

import pytest

from retrier.domain.failed_message import FailedMessageStatus, Failure
from retrier.domain.folding import (
    Comparison,
    Likeness,
    RetryNamed,
    Whose,
    as_stored,
    belongs,
    compare,
    whose,
)
from retrier.domain.recording import Known, StoredMessage
from tests.support.factories import failure, unique_id
from tests.support.raw_messages import raw_properties

BOTH = (True, False)
EVERYTHING = [
    Likeness(retry=retry, same_id=same_id, same_place=place, same_body=body, said=said)
    for retry, same_id, place, body, said in product(RetryNamed, BOTH, BOTH, BOTH, Comparison)
]

# (retry, same id, same place, same body, what the sender said); None: whatever it is.
OUTCOMES = [
    (RetryNamed.IN_FORCE, None, None, True, Comparison.EQUAL),
    (RetryNamed.IN_FORCE, None, None, True, Comparison.ADDED),
    (RetryNamed.IN_FORCE, None, None, True, Comparison.UNSAID),
    (RetryNamed.OLDER, None, True, True, Comparison.EQUAL),
    (RetryNamed.OLDER, None, True, True, Comparison.ADDED),
    (RetryNamed.OLDER, None, True, True, Comparison.UNSAID),
]
AGAIN = [
    (RetryNamed.NONE, True, True, True, Comparison.EQUAL),
    (RetryNamed.ITS_ORIGIN, True, True, True, Comparison.EQUAL),
]


def is_row(likeness: Likeness, row: tuple[object, ...]) -> bool:
    given = (
        likeness.retry,
        likeness.same_id,
        likeness.same_place,
        likeness.same_body,
        likeness.said,
    )
    return all(told is None or told == each for each, told in zip(given, row, strict=True))


@pytest.mark.parametrize("likeness", EVERYTHING, ids=repr)
def test_the_truth_table(likeness):
    expected = Whose.ANOTHER
    if any(is_row(likeness, row) for row in OUTCOMES):
        expected = Whose.OUTCOME
    if any(is_row(likeness, row) for row in AGAIN):
        expected = Whose.AGAIN

    assert whose(likeness) is expected


def stored(first: Failure, *, claim: str | None = "r1", **changes: object) -> StoredMessage:
    return StoredMessage(
        unique_message_id=unique_id(first),
        number=1,
        message_id=first.message_id,
        body_hash=first.body_hash,
        body=first.body,
        last_retry_id=claim,
        known=Known(
            status=FailedMessageStatus.RETRY_ISSUED if claim else FailedMessageStatus.UNRESOLVED,
            claim=claim,
            last_failure=None,
            resolution=None,
            confirmed_at=None,
        ),
        first=as_stored(first),
        newest=as_stored(first),
        **changes,  # type: ignore[arg-type] # fields of StoredMessage
    )


class TestWhatALibraryChangesWhenItFails:
    """Each is a retry of one message, failed once more after retries of the library's own."""

    def celery(self, retries: int, body: bytes, **headers: object) -> Failure:
        said = {"task": "shop.pay", "id": "t1", "argsrepr": "(1,)", "kwargsrepr": "{}"}
        return failure(
            message_id="t1",
            body=body,
            retry_id="r1",
            headers={**said, "retries": retries, "origin": f"gen{retries}@host", **headers},
        )

    def test_celery_writes_its_own_headers_and_callbacks_anew(self):
        first = self.celery(0, b'[[1], {}, {"callbacks": null}]')
        again = self.celery(2, b'[[1], {}, {"callbacks": []}]', eta="2026-05-04T12:00:00")

        assert belongs(again, stored(first))

    def test_celery_with_other_arguments_is_another_task(self):
        first = self.celery(0, b"[[1], {}, {}]")

        assert not belongs(self.celery(0, b"[[2], {}, {}]"), stored(first))

    def test_celery_without_json_is_known_by_what_it_says_of_its_arguments(self):
        first = self.celery(0, b"\x80\x04 one")

        assert belongs(self.celery(1, b"\x80\x04 two"), stored(first))

    def test_dramatiq_counts_in_its_body(self):
        def of(options: bytes) -> Failure:
            parts = b'"actor_name": "pay", "message_id": "m", "args": [1], "kwargs": {}'
            body = b'{%s, "options": %s}' % (parts, options)
            return failure(message_id="m", body=body, retry_id="r1", headers={})

        assert belongs(of(b'{"retries": 3, "traceback": "..."}'), stored(of(b"{}")))

    def test_any_other_body_has_to_be_the_same(self):
        first = failure(message_id="m", body=b'{"args": 1}')

        assert not belongs(
            failure(message_id="m", body=b'{"args": 2}', retry_id="r1"), stored(first)
        )

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ({"laravel": {"attempts": 1}}, {"laravel": {"attempts": 2}}),
            ({"x-retry-count": 1}, {"x-retry-count": 2}),
            ({}, {"x-exception-message": "no"}),
            ({"NServiceBus.Retries": "1"}, {}),
            ({"NServiceBus.TimeSent": "a"}, {"NServiceBus.TimeSent": "b"}),
            ({"traceparent": "00-1"}, {"traceparent": "00-2"}),
            ({"page": 1}, {"page": "1"}),
            ({"page": 1}, {"page": 1, "added": "by a consumer"}),
        ],
        ids=str,
    )
    def test_these_headers_may_differ(self, before, after):
        first = failure(message_id="m", headers=before)

        assert belongs(failure(message_id="m", headers=after, retry_id="r1"), stored(first))

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ({"page": 1}, {"page": 2}),
            ({"tenant": "a"}, {}),
            ({"tenant": "a"}, {"tenant": "b"}),
            ({"Retrier.MessageType": "OrderPlaced"}, {"Retrier.MessageType": "OrderCancelled"}),
        ],
        ids=str,
    )
    def test_these_make_it_another_message(self, before, after):
        first = failure(message_id="m", headers=before, dialect="nservicebus")
        other = failure(message_id="m", headers=after, retry_id="r1", dialect="nservicebus")

        assert not belongs(other, stored(first))

    def of_type(self, kind: str | None, **fields: str) -> Failure:
        said = {"type": kind} if kind else {}
        return failure(message_id="m", raw=raw_properties({"tenant": "a"}, **said, **fields))

    def test_fields_that_a_consumer_did_not_copy_may_be_missing(self):
        bare = replace(self.of_type(None), retry_id="r1")

        assert belongs(bare, stored(self.of_type("OrderPlaced")))

    def test_a_field_with_another_value_makes_it_another_message(self):
        other = replace(self.of_type("OrderCancelled"), retry_id="r1")

        assert not belongs(other, stored(self.of_type("OrderPlaced")))

    def test_a_content_type_that_a_library_puts_in_says_nothing(self):
        other = replace(self.of_type("OrderPlaced", content_type="application/data"), retry_id="r1")

        assert belongs(other, stored(self.of_type("OrderPlaced", content_type="text/plain")))

    def test_properties_that_cannot_be_read_agree_with_nothing_but_themselves(self):
        first = failure(message_id="m", raw=b"\xff")

        assert belongs(failure(message_id="m", raw=b"\xff", retry_id="r1"), stored(first))
        assert not belongs(failure(message_id="m", raw=b"\xff\xff", retry_id="r1"), stored(first))


def test_a_second_failure_under_one_retry_elsewhere_is_another_message():
    """A consumer sent on what it had been sent, and both failed."""
    first = failure(message_id="m", queue="orders")
    sent_on = failure(message_id="m", queue="mail", retry_id="r1")
    late = failure(message_id="m", queue="orders", retry_id="r1")

    known = stored(first, claim=None, issued=frozenset({"r1"}), outcomes={"r1": as_stored(sent_on)})

    assert not belongs(late, known)
    assert belongs(sent_on, known)


def test_a_second_failure_under_one_retry_may_name_another_application():
    """One version took the node of a Celery worker for the endpoint, the next one does not."""
    first = failure(message_id="m", endpoint="w1")
    late = failure(message_id="m", endpoint="celery", retry_id="r1")

    issued = frozenset({"r1"})

    assert belongs(late, stored(first, claim=None, issued=issued))
    assert belongs(
        late,
        stored(first, claim=None, issued=issued, outcomes={"r1": as_stored(first)}),
    )
    assert not belongs(replace(late, retry_id=None), stored(first, claim=None))


def test_a_retry_that_nobody_remembers_is_believed_where_it_names_the_message():
    """The database may have been restored from a backup that was made before the retry."""
    first = failure(message_id="m")
    named = failure(message_id="m", stamped_id=unique_id(first), retry_id="r9")

    assert compare(named, stored(first, claim=None)).retry is RetryNamed.OLDER


@pytest.mark.parametrize("claim", ["r1", None], ids=["in force", "older"])
def test_headers_that_a_retry_went_without_are_not_missed(claim):
    first = failure(message_id="m", headers={"X-Large": "l", "tenant": "a"})
    again = failure(message_id="m", headers={"tenant": "a"}, retry_id="r1")
    other = failure(message_id="m", headers={"tenant": "b"}, retry_id="r1")
    known = {"claim": claim, "issued": frozenset({"r1"})}

    assert not belongs(again, stored(first, **known))
    assert belongs(again, stored(first, **known, dropped={"r1": ["x-lar*"]}))
    assert not belongs(other, stored(first, **known, dropped={"r1": ["x-lar*"]}))


def test_what_one_retry_went_without_another_one_had():
    first = failure(message_id="m", headers={"page": 1})
    other = failure(message_id="m", headers={"page": 2}, retry_id="r2")

    known = stored(first, claim="r2", issued=frozenset({"r1"}), dropped={"r1": ["page"]})

    assert not belongs(other, known)
