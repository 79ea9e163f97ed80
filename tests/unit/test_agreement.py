"""Whose failure it is, for everything that can be said of a failure and a stored message."""

import json
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
from retrier.domain.patches import write_patch
from retrier.domain.recording import Known, StoredMessage
from retrier.domain.sender_facts import FactReader, facts_of
from retrier.domain.wire import Properties
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from tests.support.factories import failure, unique_id
from tests.support.library_samples import easynetq
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

    @pytest.mark.parametrize("changed", [{"argsrepr": "(2,)"}, {"kwargsrepr": "{'x': 1}"}], ids=str)
    def test_celery_without_json_that_says_it_had_other_arguments_is_another_task(self, changed):
        first = self.celery(0, b"\x80\x04 one")

        assert not belongs(self.celery(1, b"\x80\x04 two", **changed), stored(first))

    @pytest.mark.parametrize("changed", [{"task": "shop.refund"}, {"id": "t2"}], ids=str)
    def test_celery_with_another_name_or_id_asks_for_something_else(self, changed):
        body = b"[[1], {}, {}]"
        asked, other = (self.celery(0, body, **each) for each in ({}, changed))

        assert asked.sender.task(asked.raw, body) != other.sender.task(other.raw, body)

    def test_celery_may_write_named_arguments_in_another_order(self):
        first = self.celery(0, b'[[], {"a": 1, "b": 2}, {}]')

        assert belongs(self.celery(1, b'[[], {"b": 2, "a": 1}, {}]'), stored(first))

    def test_celery_with_another_header_of_its_sender_is_another_task(self):
        first = self.celery(0, b"[[1], {}, {}]", tenant="a")

        assert not belongs(self.celery(1, b"[[1], {}, {}]", tenant="b"), stored(first))

    @pytest.mark.parametrize("one", [{"task": "shop.pay"}, {"id": "t1"}], ids=str)
    def test_a_message_with_one_of_celerys_headers_is_no_task(self, one):
        first = failure(message_id="m", body=b"[[1], {}, 1]", headers={**one, "origin": "a"})
        body = failure(
            message_id="m", body=b"[[1], {}, 2]", retry_id="r1", headers={**one, "origin": "a"}
        )
        header = failure(
            message_id="m", body=b"[[1], {}, 1]", retry_id="r1", headers={**one, "origin": "b"}
        )

        assert not belongs(body, stored(first))
        assert not belongs(header, stored(first))

    def dramatiq(self, **changes: object) -> Failure:
        asked = {"actor_name": "pay", "message_id": "m", "args": [1], "kwargs": {}}
        body = json.dumps(asked | changes).encode()
        return failure(message_id="m", body=body, retry_id="r1", headers={})

    def test_dramatiq_counts_in_its_body(self):
        again = self.dramatiq(options={"retries": 3, "traceback": "..."})

        assert belongs(again, stored(self.dramatiq(options={})))
        assert belongs(again, stored(self.dramatiq()))

    @pytest.mark.parametrize(
        "changed",
        [{"actor_name": "refund"}, {"message_id": "n"}, {"args": [2]}, {"kwargs": {"a": 1}}],
        ids=str,
    )
    def test_dramatiq_with_something_else_to_do_is_another_message(self, changed):
        assert not belongs(self.dramatiq(**changed), stored(self.dramatiq()))

    @pytest.mark.parametrize(
        ("before", "after"),
        [(b'{"args": 1}', b'{"args": 2}'), (b'{"a": 1}', b'{"a": 2}'), (b"[1]", b"[2]")],
    )
    def test_any_other_body_has_to_be_the_same(self, before, after):
        first = failure(message_id="m", body=before)

        assert not belongs(failure(message_id="m", body=after, retry_id="r1"), stored(first))

    def test_a_body_that_is_stored_no_more_has_to_have_the_same_hash(self):
        known = replace(stored(self.dramatiq()), body=None)

        assert belongs(self.dramatiq(), known)
        assert not belongs(self.dramatiq(options={"retries": 3}), known)

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
            ({"urgent": True}, {"urgent": "true"}),
            ({"key": b"\x00k"}, {"key": "\x00k"}),
            ({"page": {"a": 1, "b": True}}, {"page": {"b": "true", "a": "1"}}),
            ({"pages": [1, False]}, {"pages": ["1", "false"]}),
        ],
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
            ({"urgent": True}, {"urgent": False}),
            ({"key": b"\xff"}, {"key": b"\xfe"}),
            ({"page": {"a": 1}}, {"page": {"a": 2}}),
            ({"page": {"a": 1}}, {"page": {"b": 1}}),
            ({"pages": [1]}, {"pages": [2]}),
            ({"Retrier.MessageType": "OrderPlaced"}, {"Retrier.MessageType": "OrderCancelled"}),
        ],
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

    def test_an_address_for_replies_that_the_broker_wrote_says_nothing(self):
        first = self.of_type(None, reply_to="amq.rabbitmq.reply-to.g1")
        other = replace(self.of_type(None, reply_to="amq.rabbitmq.reply-to.g2"), retry_id="r1")

        assert belongs(other, stored(first))

    @pytest.mark.parametrize(
        ("field", "before", "after"),
        [("reply_to", "answers", "replies"), ("type", "amq.a", "amq.b")],
    )
    def test_other_values_that_look_like_it_make_it_another_message(self, field, before, after):
        first = self.of_type(None, **{field: before})
        other = replace(self.of_type(None, **{field: after}), retry_id="r1")

        assert not belongs(other, stored(first))

    def test_properties_that_cannot_be_read_agree_with_nothing_but_themselves(self):
        first = failure(message_id="m", raw=b"\xff")
        known = {"r1": ["x-*"]}

        assert belongs(failure(message_id="m", raw=b"\xff", retry_id="r1"), stored(first))
        for raw in (b"\xff\xff", raw_properties({})):
            other = failure(message_id="m", raw=raw, retry_id="r1")
            assert not belongs(other, stored(first))
            assert not belongs(other, stored(first, dropped=known))

    def test_headers_that_the_settings_call_volatile_say_nothing(self):
        sender = FactReader(AmqpPropertyCodec(), volatile=("x-shop-*",))
        first = failure(message_id="m", headers={"X-Shop-Hop": 1}, sender=sender)
        again = failure(message_id="m", headers={"X-Shop-Hop": 2}, sender=sender, retry_id="r1")

        assert belongs(again, stored(first))


def test_bytes_are_compared_as_the_text_that_a_library_makes_of_them():
    said = Properties(fields={}, headers={"one": b"a", "two": b"a\xff"})

    assert facts_of(said) == {"one": "a", "two": "a\\xff"}


class TestWithoutARetry:
    """The same message published again."""

    def test_it_is_the_same_where_everything_is(self):
        first = failure(message_id="m")

        assert belongs(replace(first, error_queue="other"), stored(first, claim=None))

    @pytest.mark.parametrize("message_id", ["n", None])
    def test_another_message_id_makes_it_another_message(self, message_id):
        first = failure(message_id="m")

        assert not belongs(replace(first, message_id=message_id), stored(first, claim=None))

    def test_one_without_a_message_id_may_come_again(self):
        first = failure(message_id=None, stamped_id="00000000-0000-0000-0000-000000000000")

        assert belongs(first, stored(first, claim=None))

    def test_it_does_not_come_from_where_a_retry_was_sent(self):
        first = failure(message_id="m", queue="orders")
        moved = failure(message_id="m", queue="mail")

        assert not belongs(moved, stored(first, claim=None, sent_to=frozenset({"mail"})))


def test_a_second_failure_under_one_retry_elsewhere_is_another_message():
    """A consumer sent on what it had been sent, and both failed."""
    first = failure(message_id="m", queue="orders")
    sent_on = failure(message_id="m", queue="mail", retry_id="r1")
    late = failure(message_id="m", queue="orders", retry_id="r1")

    known = stored(first, claim=None, issued=frozenset({"r1"}), outcomes={"r1": as_stored(sent_on)})

    assert not belongs(late, known)
    assert belongs(sent_on, known)


def test_a_retry_may_fail_where_it_was_sent():
    first = failure(message_id="m", queue="orders")
    late = failure(message_id="m", queue="mail", retry_id="r1")
    known = stored(first, claim=None, issued=frozenset({"r1"}), sent_to=frozenset({"mail"}))

    assert belongs(late, known)
    assert not belongs(late, replace(known, outcomes={"r1": as_stored(first)}))


def test_what_was_added_after_a_retry_is_no_part_of_it():
    """A double of an older retry has what that was sent with; that in force has what is newest."""
    first = failure(message_id="m", headers={"tenant": "a"})
    newest = failure(message_id="m", headers={"tenant": "a", "added": "by a consumer"})
    known = replace(stored(first, issued=frozenset({"r0"})), newest=as_stored(newest))

    assert belongs(replace(first, retry_id="r0"), known)
    assert not belongs(replace(first, retry_id="r1"), known)


def test_a_retry_of_which_the_message_knows_nothing_is_another_ones():
    first = failure(message_id="m")

    assert compare(replace(first, retry_id="r9"), stored(first)).retry is RetryNamed.FOREIGN


def test_the_last_retry_of_a_message_is_its_own_although_it_has_ended():
    first = failure(message_id="m")
    known = replace(stored(first, claim=None), last_retry_id="r1")

    assert compare(replace(first, retry_id="r1"), known).retry is RetryNamed.OLDER


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


class TestAPatchedRetry:
    """The failure of a retry that was sent as a patch has made it."""

    PATCH = write_patch({"body": [{"op": "replace", "path": "/order", "value": 8}]})

    def known(self, first: Failure, **changes: object) -> StoredMessage:
        made = first.sender.patched(first.raw, first.body, first.dialect, self.PATCH)
        assert made is not None
        return stored(first, patches={"r1": self.PATCH}, sent={"r1": made}, **changes)  # type: ignore[arg-type] # fields of StoredMessage

    def test_that_has_what_was_sent_is_its_message(self):
        first = failure(message_id="m", body=b'{"order": 7}')
        again = replace(failure(message_id="m", body=b'{"order":8}', raw=first.raw), retry_id="r1")

        assert belongs(again, self.known(first))

    def test_that_has_what_is_stored_is_another_message(self):
        first = failure(message_id="m", body=b'{"order": 7}')

        assert not belongs(replace(first, retry_id="r1"), self.known(first))

    @pytest.mark.parametrize("body", [b'{"order":8}', b'{"order": 7}'])
    def test_that_is_over_may_have_either(self, body):
        first = failure(message_id="m", body=b'{"order": 7}')
        again = replace(failure(message_id="m", body=body, raw=first.raw), retry_id="r1")

        assert belongs(again, self.known(first, claim=None, issued=frozenset({"r1"})))

    def test_of_another_patch_is_another_message(self):
        first = failure(message_id="m", body=b'{"order": 7}')
        again = replace(failure(message_id="m", body=b'{"order":9}', raw=first.raw), retry_id="r1")

        assert not belongs(again, self.known(first))

    @pytest.mark.parametrize(("inside", "is_its"), [('{"order":8}', True), ('{"order":7}', False)])
    def test_that_fails_in_an_envelope_is_its_message(self, inside, is_its):
        values = {"message_id": "m", "dialect": "easynetq", "headers": {}}
        first = failure(**values, body=easynetq())
        again = failure(**values, body=easynetq(inside), retry_id="r1")

        assert belongs(again, self.known(first)) is is_its

    def test_whose_original_is_deleted_is_compared_with_nothing(self):
        first = failure(message_id="m", body=b'{"order": 7}')
        again = replace(failure(message_id="m", body=b'{"order":8}', raw=first.raw), retry_id="r1")

        assert not belongs(again, stored(first, patches={"r1": self.PATCH}))
