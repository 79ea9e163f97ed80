"""What a copy in the staging queue says, and what is sent back for it."""

import json

import pytest

from retrier.domain import headers
from retrier.domain.copies import (
    SendingTerms,
    StagedCopy,
    as_it_came,
    make_end_marker,
    read_staged,
    why_unsendable,
)
from retrier.domain.retry_batch import StoredOriginal
from retrier.domain.wire import Edit, PropertyCodec
from retrier.transport.embedded.properties import EnvelopePropertyCodec
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from retrier.transport.sqs.properties import SqsPropertyCodec
from tests.support.amqp_bytes import properties
from tests.support.copies import STAMPS, copy_of, retry_of
from tests.support.raw_messages import nservicebus_headers, raw_properties

AMQP = AmqpPropertyCodec()
SQS = SqsPropertyCodec()
CODECS = pytest.mark.parametrize("codec", [AMQP, EnvelopePropertyCodec()], ids=["amqp", "json"])


def names(raw: bytes) -> list[str]:
    return list(AMQP.read(raw).headers)


@CODECS
def test_a_copy_says_which_message_it_stands_for(codec: PropertyCodec) -> None:
    copy = copy_of(codec, number=10**18 - 1, size=2**40)

    assert read_staged(codec, copy) == StagedCopy(
        staging_id="s-1",
        installation_id="i-1",
        number=10**18 - 1,
        unique_message_id="u-1",
        retry_id="r-1",
        target="orders",
        size=2**40,
        end_marker=None,
    )


@CODECS
def test_a_copy_is_persistent(codec: PropertyCodec) -> None:
    assert codec.read(copy_of(codec)).fields == {"delivery_mode": 2}


def test_a_copy_has_headers_of_its_own_alone() -> None:
    assert {*names(copy_of(AMQP))} == {
        headers.STAGING_ID,
        headers.INSTALLATION_ID,
        headers.NUMBER,
        headers.UNIQUE_MESSAGE_ID,
        headers.RETRY_ID,
        headers.TARGET_ADDRESS,
        headers.SIZE,
    }


@CODECS
def test_an_end_marker_names_no_message(codec: PropertyCodec) -> None:
    marker = read_staged(codec, make_end_marker(codec, STAMPS, "nonce"))

    assert marker is not None
    assert (marker.staging_id, marker.end_marker, marker.number) == ("s-1", "nonce", 0)


@pytest.mark.parametrize("number", ["", "0", "-1", "many", "9" * 19])
def test_a_copy_without_a_number_of_ours_names_no_message(number: str) -> None:
    stamps = {headers.STAGING_ID: "s-1", headers.NUMBER: number}

    copy = read_staged(AMQP, raw_properties(stamps))

    assert copy is not None
    assert copy.number == 0


@CODECS
def test_what_has_no_staging_id_is_no_copy(codec: PropertyCodec) -> None:
    assert read_staged(codec, codec.empty) is None


def test_what_cannot_be_read_is_no_copy() -> None:
    assert read_staged(AMQP, b"\xff") is None


def test_a_retry_has_the_headers_of_its_message_and_the_retry_headers_behind_them() -> None:
    retry = retry_of(AMQP, raw_properties(nservicebus_headers()))

    assert names(retry)[-3:] == [
        headers.RETRY_ID,
        headers.ACKNOWLEDGEMENT_QUEUE,
        headers.UNIQUE_MESSAGE_ID,
    ]
    assert not headers.STAGING_ONLY & set(names(retry))


@pytest.mark.parametrize("name", sorted(headers.STAGING_ONLY | headers.FAN_OUT))
def test_a_retry_has_no_header_that_means_something_to_the_broker_or_to_staging(name: str) -> None:
    raw = raw_properties({name: "theirs", **nservicebus_headers()})

    assert "theirs" not in AMQP.read(retry_of(AMQP, raw)).headers.values()


OF_SENDERS = [
    *("CC", "BCC", "x-death", "x-delivery-count", "x-acquired-count", "x-first-death-queue"),
]


@pytest.mark.parametrize("name", OF_SENDERS)
def test_a_retry_on_sqs_keeps_what_only_rabbitmq_acts_on(name: str) -> None:
    raw = SQS.edit(SQS.empty, Edit(set_headers={name: "theirs"}))

    assert SQS.read(retry_of(SQS, raw)).headers[name] == "theirs"
    assert as_it_came(SQS, raw, None) == raw


def test_a_retry_on_sqs_goes_without_what_a_person_leaves_out() -> None:
    raw = SQS.edit(SQS.empty, Edit(set_headers={"CC": "theirs"}))

    assert "CC" not in SQS.read(retry_of(SQS, raw, leave_out=("cc",))).headers


@pytest.mark.parametrize("name", sorted(headers.BROKER_COUNTERS))
def test_a_retry_begins_its_deliveries_anew(name: str) -> None:
    raw = raw_properties({name: "3", **nservicebus_headers()})

    assert name not in names(retry_of(AMQP, raw))


def test_the_retry_of_a_copy_that_came_to_an_error_queue_is_no_copy() -> None:
    retry = retry_of(AMQP, copy_of(AMQP))

    assert read_staged(AMQP, retry) is None


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"delivery_mode": 1},
        {"priority": 9},
        {"delivery_mode": 2, "priority": 0},
    ],
)
def test_a_retry_is_as_urgent_as_its_message_and_persistent(fields: dict[str, int]) -> None:
    retry = retry_of(AMQP, properties(**fields))

    assert AMQP.read(retry).fields == {**fields, "delivery_mode": 2}


@CODECS
@pytest.mark.parametrize("mode", [{}, {"delivery_mode": 1}, {"delivery_mode": 2}], ids=str)
def test_a_retry_lasts_as_its_message_where_that_is_asked_for(
    codec: PropertyCodec, mode: dict[str, int]
) -> None:
    came = codec.edit(codec.empty, Edit(set_fields=mode))

    assert codec.read(retry_of(codec, came, keep_transient=True)).fields == mode


@CODECS
@pytest.mark.parametrize("mode", [{}, {"delivery_mode": 1}, {"delivery_mode": 2}], ids=str)
@pytest.mark.parametrize("keeps", [True, False])
def test_a_failed_import_that_is_sent_is_persistent_unless_told_otherwise(
    codec: PropertyCodec, mode: dict[str, int], *, keeps: bool
) -> None:
    came = codec.edit(codec.empty, Edit(set_fields=mode))

    sent = as_it_came(codec, came, None, keep_transient=keeps)

    assert codec.read(sent).fields == (mode if keeps else {"delivery_mode": 2})


def test_a_retry_does_not_expire() -> None:
    assert AMQP.read(retry_of(AMQP, properties(expiration="1"))).fields == {"delivery_mode": 2}


@pytest.mark.parametrize(("own_user", "kept"), [("guest", {"user_id": "guest"}), ("other", {})])
def test_a_retry_names_no_user_whom_the_broker_would_refuse(
    own_user: str, kept: dict[str, str]
) -> None:
    retry = retry_of(AMQP, properties(user_id="guest"), own_user=own_user)

    assert AMQP.read(retry).fields == {**kept, "delivery_mode": 2}


@CODECS
def test_a_retry_goes_without_the_headers_that_its_queue_drops(codec: PropertyCodec) -> None:
    came = {"X-Retry-Count": "3", "x-exception-type": "OSError", "x-tenant": "a"}
    raw = codec.edit(codec.empty, Edit(set_headers=came))

    retry = retry_of(codec, raw, leave_out=("x-retry-count", "x-Exception-*"))

    left = codec.read(retry).headers
    assert not left.keys() & {"X-Retry-Count", "x-exception-type"}
    assert left["x-tenant"] == "a"
    assert headers.RETRY_ID in left


@CODECS
def test_what_one_queue_drops_another_keeps(codec: PropertyCodec) -> None:
    raw = codec.edit(codec.empty, Edit(set_headers={"x-retry-count": "3"}))

    retry_of(codec, raw, leave_out=("x-retry-count",))

    assert codec.read(retry_of(codec, raw)).headers["x-retry-count"] == "3"


@pytest.mark.parametrize(
    ("own", "body", "why"),
    [(9, b"{}", ""), (10, b"{}", "11 attributes"), (1, b"x" * (1 << 20), "SQS takes 1,048,576")],
)
def test_a_retry_that_sqs_would_never_take_is_known_before(own: int, body: bytes, why: str) -> None:
    attributes = {f"a{n}": {"DataType": "String", "StringValue": "x"} for n in range(own)}
    raw = json.dumps({"attributes": attributes}).encode()
    original = StoredOriginal(raw, body, "sqs", "dead", completed_steps=None)
    terms = SendingTerms(acknowledgement_queue="dead", own_user=None)

    assert why in (why_unsendable(SQS, original, terms) or "")
    assert (why_unsendable(SQS, original, terms) is None) == (why == "")
