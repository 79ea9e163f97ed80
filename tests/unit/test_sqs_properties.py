"""The properties of SQS messages: read, edited, compared, packed."""

import json
from base64 import b64encode
from typing import Any

import pytest

from retrier.domain.dialects import by_name
from retrier.domain.dialects.dialect import Unintelligible
from retrier.domain.edits import Changes, EditRefusal, EditRefused, edit_message
from retrier.domain.failed_message import FailureDetails
from retrier.domain.headers import RETRY_ID
from retrier.domain.identity import fingerprint
from retrier.domain.patches import PatchRefused, patch_message, read_patch
from retrier.domain.retry_batch import StoredOriginal
from retrier.domain.wire import Edit, Outgoing, UnreadableProperties
from retrier.transport.queue_names import read_sqs_name
from retrier.transport.sqs.address import name_beside, parse_address
from retrier.transport.sqs.properties import (
    SqsPropertyCodec,
    make_entry,
    md5_of_attributes,
    read_message,
)
from tests.support.library_samples import lambda_envelope

CODEC = SqsPropertyCodec()
OWN = "arn:aws:sqs:eu-west-1:123456789012:orders-dead"
SOURCE = "arn:aws:sqs:eu-west-1:123456789012:orders"


def received(body: str = "{}", *, count: int = 4, **changes: Any) -> dict[str, Any]:
    """Make a message as boto3 hands it out."""
    system = {
        "ApproximateReceiveCount": str(count),
        "ApproximateFirstReceiveTimestamp": "1777896060000",
        "SentTimestamp": "1777896000000",
        "SenderId": "me",
    }
    attributes = {"tenant": {"DataType": "String", "StringValue": "north"}}
    return {
        "MessageId": "m-1",
        "ReceiptHandle": "r",
        "Body": body,
        "Attributes": {**system, **changes},
        "MessageAttributes": attributes,
    }


def told(message: dict[str, Any], **found_on: Any) -> FailureDetails | Unintelligible:
    known = by_name("sqs")
    assert known
    parcel = read_message(message, OWN, found_on.pop("only", None))
    return known.read(CODEC.read(parcel.raw), body=parcel.body, **found_on)


def unwrapped(message: dict[str, Any]) -> bytes | None:
    """Return what goes back of a message; None if that is its body."""
    known = by_name("sqs")
    assert known
    parcel = read_message(message, OWN)
    inside = known.unwrap(CODEC.read(parcel.raw), parcel.body)
    return None if inside is None else inside.body


def without(name: str) -> bytes:
    """Return the record of Lambda without one of its members."""
    return lambda_envelope().replace(f'"{name}"'.encode(), b'"other"')


def having(kind: str, value: str, *, name: str = "n") -> bytes:
    """Return properties with one attribute."""
    attribute = {"DataType": kind, "StringValue": value}
    return json.dumps({"attributes": {name: attribute}}).encode()


def original(raw: bytes) -> StoredOriginal:
    """Return a stored message with these properties."""
    return StoredOriginal(
        raw=raw, body=b"{}", dialect="sqs", error_queue="orders-dead", completed_steps=None
    )


class TestReading:
    def test_each_delivery_of_a_message_has_the_same_fingerprint(self) -> None:
        first, later = (read_message(received(count=count)) for count in (1, 2))

        marks = {fingerprint(CODEC.canonical(each.raw), each.body) for each in (first, later)}
        assert len(marks) == 1
        assert (first.redelivered, later.redelivered) == (False, True)

    def test_equal_messages_stay_two(self) -> None:
        one, two = (read_message({**received(), "MessageId": name}) for name in ("m-1", "m-2"))

        assert CODEC.canonical(one.raw) != CODEC.canonical(two.raw)

    def test_the_queue_that_it_was_moved_from_is_where_it_failed(self) -> None:
        found = told(received(DeadLetterQueueSourceArn=SOURCE), otherwise="others", only="only")

        assert isinstance(found, FailureDetails)
        assert (found.queue, found.attempts_reported) == ("orders", 3)

    def test_a_queue_of_another_account_goes_by_its_arn(self) -> None:
        theirs = "arn:aws:sqs:eu-west-1:999999999999:orders"
        found = told(received(DeadLetterQueueSourceArn=theirs))

        assert isinstance(found, FailureDetails)
        assert found.queue == theirs

    def test_the_destination_of_the_settings_comes_before_the_only_source(self) -> None:
        found = told(received(), otherwise="named", only="only")

        assert isinstance(found, FailureDetails)
        assert found.queue == "named"

    def test_the_only_source_is_where_it_failed_if_nothing_else_says_it(self) -> None:
        found = told(received(), only="only")

        assert isinstance(found, FailureDetails)
        assert found.queue == "only"

    def test_a_message_of_which_nothing_says_where_it_failed_is_a_failed_import(self) -> None:
        assert isinstance(told(received()), Unintelligible)

    def test_the_task_of_celery_is_read_out_of_base64(self) -> None:
        envelope = json.dumps({"body": "", "headers": {"task": "shop.pack"}}).encode()
        found = told(received(b64encode(envelope).decode()), only="only")

        assert isinstance(found, FailureDetails)
        assert found.message_type == "shop.pack"

    def test_what_lambda_was_called_with_goes_back(self) -> None:
        inside = unwrapped(received(lambda_envelope().decode()))

        assert json.loads(inside or b"") == {"order": 7, "buyer": "Zo\u00eb"}

    @pytest.mark.parametrize(
        "payload",
        [
            '{"sum": 0.1234567890123456789012345, "more": [1E5, -0, 1.10]}',
            '{ "a" : 1,\n "a" : 2 }',
            '{"half": "\\ud800", "letter": "\\u00eb", "other": "ë"}',
            f'{{"long": {"9" * 5000}}}',
            '"a text"',
            "null",
        ],
        ids=["numbers", "spaces and names", "characters", "long number", "text", "nothing"],
    )
    def test_it_goes_back_byte_for_byte(self, payload: str) -> None:
        body = lambda_envelope("HERE").decode().replace('"HERE"', payload)

        assert unwrapped(received(body)) == payload.encode()

    @pytest.mark.parametrize(
        "body",
        [
            without("version"),
            without("timestamp"),
            without("requestContext"),
            without("functionArn"),
            without("requestId"),
            without("condition"),
            without("approximateInvokeCount"),
            lambda_envelope().replace(b"RetriesExhausted", b"Success"),
            lambda_envelope().replace(b":lambda:", b":states:"),
            lambda_envelope().replace(b'"version"', b'"requestPayload": 1, "version"'),
            json.dumps({"Type": "Notification", "Message": lambda_envelope().decode()}).encode(),
            b"[" + lambda_envelope() + b"]",
            lambda_envelope()[:-1],
        ],
        ids=[
            "no version",
            "no time",
            "no context",
            "no function",
            "no request",
            "no condition",
            "no count",
            "of a success",
            "no function of lambda",
            "two payloads",
            "in sns",
            "in a list",
            "cut off",
        ],
    )
    def test_what_is_not_lambdas_own_record_goes_back_as_it_came(self, body: bytes) -> None:
        assert unwrapped(received(body.decode())) is None

    def test_a_record_that_a_consumer_had_received_goes_back_as_it_came(self) -> None:
        moved = received(lambda_envelope().decode(), DeadLetterQueueSourceArn=SOURCE)

        assert unwrapped(moved) is None
        found = told(moved)
        assert isinstance(found, FailureDetails)
        assert (found.queue, found.attempts_reported, found.exception_type) == ("orders", 3, None)

    def test_the_reason_of_lambda_is_found_in_an_envelope_of_sns(self) -> None:
        body = json.dumps({"Type": "Notification", "Message": lambda_envelope().decode()})
        found = told(received(body))

        assert isinstance(found, FailureDetails)
        assert (found.endpoint, found.exception_type) == ("pack", "ValueError")

    def test_the_record_of_a_batch_says_why_and_goes_back_as_it_came(self) -> None:
        whole = json.loads(lambda_envelope())
        del whole["requestPayload"]
        body = json.dumps(whole | {"KinesisBatchInfo": {"batchSize": 10}})

        assert unwrapped(received(body)) is None
        found = told(received(body))
        assert isinstance(found, FailureDetails)
        assert found.failure_reason == "RetriesExhausted"

    def test_an_envelope_of_sns_goes_back_as_it_came(self) -> None:
        told_by_sns = {"Type": "Notification", "Message": "x", "TopicArn": "arn:orders"}
        body = json.dumps(told_by_sns | {"Subject": "Order 7 of Zo\u00eb"})
        parcel = read_message(received(body))
        known = by_name("sqs")
        assert known

        assert known.unwrap(CODEC.read(parcel.raw), parcel.body) is None
        found = told(received(body), only="only")
        assert isinstance(found, FailureDetails)
        assert found.message_type == "orders"

    @pytest.mark.parametrize(
        "raw", [b"", b"[]", b"{", b'{"attributes": 5}', b'{"attributes": {"a": 1}}']
    )
    def test_what_is_no_properties_is_said(self, raw: bytes) -> None:
        with pytest.raises(UnreadableProperties):
            CODEC.read(raw)
        assert CODEC.read_what_can_be(raw)[1]


class TestEditing:
    def test_an_edit_leaves_group_and_other_attributes_alone(self) -> None:
        raw = read_message(received(MessageGroupId="g")).raw
        edit = Edit(
            drop_headers=lambda name: name.startswith("SQS."), set_headers={RETRY_ID: "r-1"}
        )

        edited = json.loads(CODEC.edit(raw, edit))

        assert edited["goes_back"] == {"MessageGroupId": "g"}
        assert sorted(edited["attributes"]) == [RETRY_ID, "tenant"]
        assert "facts" not in edited

    @pytest.mark.parametrize(
        ("kind", "before", "after"),
        [
            ("Number", "1.5", "2.75"),
            ("Number", "1", 2),
            ("Number.int", "1.0", "-2E3"),
            ("String.uuid", "a", "b"),
            ("String", "a", "7"),
        ],
    )
    def test_an_attribute_that_is_set_keeps_its_type(
        self, kind: str, before: str, after: str | int
    ) -> None:
        edited = json.loads(CODEC.edit(having(kind, before), Edit(set_headers={"n": after})))

        assert edited["attributes"]["n"] == {"DataType": kind, "StringValue": str(after)}

    @pytest.mark.parametrize("text", ["abc", "", "1,5", "NaN", "0x1", "1_000", "\u0663"])
    @pytest.mark.parametrize("kind", ["Number", "Number.float"])
    def test_a_number_is_not_set_to_what_is_none(self, kind: str, text: str) -> None:
        found = original(having(kind, "1.5"))

        edited = edit_message(CODEC, found, Changes(set_headers={"n": text}), "u", "new")
        patched = patch_message(
            CODEC, found, read_patch(json.dumps({"headers": {"set": {"n": text}}}))
        )

        assert isinstance(edited, EditRefused)
        assert edited.why is EditRefusal.OTHER_TYPE
        assert patched == PatchRefused(reason=str(edited))

    def test_what_we_stamp_has_our_type_whatever_a_sender_called_so(self) -> None:
        raw = having("Number", "1", name=RETRY_ID)
        edited = json.loads(CODEC.edit(raw, Edit(set_headers={RETRY_ID: "r-1"})))

        assert edited["attributes"][RETRY_ID]["DataType"] == "String"

    def test_a_text_field_is_an_attribute_of_its_name(self) -> None:
        raw = CODEC.edit(b"{}", Edit(set_fields={"type": "Order", "delivery_mode": 2}))

        assert CODEC.read(raw).fields == {"type": "Order"}
        assert CODEC.edit(raw, Edit(drop_fields=frozenset({"type"}))) == b"{}"

    def test_another_field_cannot_be_set(self) -> None:
        with pytest.raises(ValueError, match="cannot set"):
            CODEC.edit(b"{}", Edit(set_fields={"user_id": "me"}))


class TestSending:
    @pytest.mark.parametrize(
        ("attributes", "digest"),
        [
            (
                {"timestamp": {"DataType": "Number", "StringValue": "1493147359900"}},
                "235c5c510d26fb653d073faed50ae77c",
            ),
            (
                {
                    "ordinal": {"DataType": "Number", "StringValue": "1"},
                    "category": {"DataType": "String", "StringValue": "test"},
                },
                "d21ae90c49061e927f57df5f5d72be1f",
            ),
        ],
    )
    def test_the_digest_of_attributes_is_that_of_others(
        self, attributes: dict[str, Any], digest: str
    ) -> None:
        # From the tests of two other implementations of SQS.
        assert md5_of_attributes(attributes) == digest

    def test_a_retry_of_a_message_without_attributes_has_them_one_by_one(self) -> None:
        raw = CODEC.edit(b"{}", Edit(set_headers={RETRY_ID: "r-1"}))
        entry = make_entry(Outgoing(queue="q", raw=raw, body=b"x"), fifo=True)

        assert list(entry.parameters["MessageAttributes"]) == [RETRY_ID]
        assert entry.parameters["MessageDeduplicationId"] == "r-1"
        assert entry.parameters["MessageGroupId"] == "r-1"

    @pytest.mark.parametrize("fifo", [True, False])
    def test_a_retry_has_the_group_of_its_message(self, *, fifo: bool) -> None:
        parcel = read_message(received(MessageGroupId="tenant-7"), OWN)
        entry = make_entry(Outgoing(queue="q", raw=parcel.raw, body=b"x"), fifo=fifo)

        assert entry.parameters["MessageGroupId"] == "tenant-7"

    def test_without_a_group_it_has_none_on_a_standard_queue(self) -> None:
        parcel = read_message(received(), OWN)
        entry = make_entry(Outgoing(queue="q", raw=parcel.raw, body=b"x"), fifo=False)

        assert "MessageGroupId" not in entry.parameters

    def test_its_size_counts_names_types_and_values(self) -> None:
        raw = CODEC.edit(b"{}", Edit(set_headers={"name": "value"}))

        assert make_entry(Outgoing(queue="q", raw=raw, body=b"body"), fifo=False).size == sum(
            map(len, ("body", "name", "String", "value"))
        )


class TestNames:
    @pytest.mark.parametrize(
        ("queue", "name"),
        [
            ("orders", "orders"),
            ("orders.fifo", "orders.fifo"),
            ("shop.eu.staging", "shop-eu-staging"),
            (SOURCE, "orders"),
        ],
    )
    def test_a_queue_goes_by_its_name_or_arn(self, queue: str, name: str) -> None:
        found = read_sqs_name(queue, "eu-west-1")

        assert found is not None
        assert found.name == name

    @pytest.mark.parametrize("queue", ["", "a.b", "a b", "x" * 81, SOURCE.replace("west", "east")])
    def test_no_queue_can_have_any_other_name(self, queue: str) -> None:
        assert read_sqs_name(queue, "eu-west-1") is None

    def test_a_queue_of_the_same_account_goes_by_its_name(self) -> None:
        assert name_beside(SOURCE, OWN) == "orders"

    def test_a_secret_is_not_shown(self) -> None:
        address = parse_address("sqs://key:s%2Fcret@eu-west-1", {})

        assert (address.key, address.secret) == ("key", "s/cret")
        assert "cret" not in repr(address)
