"""Where the stamps of a copy lie, and what has them looked for one by one."""

import pytest

from retrier.domain import headers
from retrier.domain.amqp_fields import table_of
from retrier.domain.amqp_properties import AmqpPropertyCodec
from retrier.domain.copies import (
    Stamps,
    make_end_marker,
    make_forwarded,
    make_staged,
    read_staged,
)
from retrier.domain.envelope_properties import EnvelopePropertyCodec
from retrier.domain.retry_batch import ClaimedMessage
from retrier.domain.wire import Edit
from tests.support.raw_messages import nservicebus_headers, raw_properties

CODEC = AmqpPropertyCodec()
STAMPS = Stamps(staging_id="s-1", installation_id="i-1", own_user="guest")


def message(raw: bytes, completed_steps: str | None = None) -> ClaimedMessage:
    return ClaimedMessage(
        number=1,
        unique_message_id="u-1",
        retry_id="r-1",
        dialect="nservicebus",
        error_queue="error",
        destination="orders",
        raw=raw,
        body_size=7,
        completed_steps=completed_steps,
    )


@pytest.fixture
def copy() -> bytes:
    return make_staged(CODEC, message(raw_properties(nservicebus_headers())), STAMPS, "error")


def names(raw: bytes) -> list[str]:
    return list(CODEC.read(raw).headers)


def test_the_stamps_of_a_copy_are_its_last_headers(copy: bytes) -> None:
    assert names(copy)[-9:] == [
        headers.RETRY_ID,
        headers.ACKNOWLEDGEMENT_QUEUE,
        headers.UNIQUE_MESSAGE_ID,
        headers.BODY_SIZE,
        headers.STAGING_ID,
        headers.INSTALLATION_ID,
        headers.TARGET_ADDRESS,
        headers.ORIGINAL_FIELDS,
        headers.LAYOUT,
    ]


def test_the_layout_header_says_where_the_stamps_begin(copy: bytes) -> None:
    layout = CODEC.read(copy).text(headers.LAYOUT) or ""

    start, _ = table_of(copy)
    stamps = copy[start + int(layout) :]
    assert stamps[1:].startswith(headers.UNIQUE_MESSAGE_ID.encode())


def test_a_forwarded_message_keeps_the_retry_headers_and_no_other(copy: bytes) -> None:
    forwarded = make_forwarded(CODEC, copy, "")

    assert names(forwarded)[-3:] == [
        headers.RETRY_ID,
        headers.ACKNOWLEDGEMENT_QUEUE,
        headers.UNIQUE_MESSAGE_ID,
    ]
    assert not headers.STAGING_ONLY & set(names(forwarded))


def test_a_copy_without_the_layout_header_is_read_and_forwarded_all_the_same(copy: bytes) -> None:
    older = CODEC.edit(copy, Edit(drop_headers=headers.LAYOUT.__eq__))

    assert CODEC.read_stamps(older) is None
    assert read_staged(CODEC, older) == read_staged(CODEC, copy)
    assert make_forwarded(CODEC, older, "") == make_forwarded(CODEC, copy, "")


@pytest.mark.parametrize("name", sorted(headers.STAGING_ONLY))
def test_a_stamp_that_came_with_the_message_is_not_on_the_copy(name: str) -> None:
    raw = raw_properties({name: "theirs", **nservicebus_headers()})

    copy = make_staged(CODEC, message(raw), STAMPS, "error")

    assert "theirs" not in CODEC.read(copy).headers.values()


def test_the_copy_of_a_copy_has_the_newer_stamps_alone(copy: bytes) -> None:
    newer = Stamps(staging_id="s-2", installation_id="i-1", own_user="guest")

    again = make_staged(CODEC, message(copy), newer, "error")

    stamps = read_staged(CODEC, again)
    assert stamps is not None
    assert stamps.staging_id == "s-2"
    assert not headers.STAGING_ONLY & set(names(make_forwarded(CODEC, again, stamps.noted)))


@pytest.mark.parametrize(
    ("noted", "fields"),
    [
        ("", {}),
        ("delivery_mode=1", {"delivery_mode": 1}),
        ("priority=9", {"priority": 9}),
        ("delivery_mode=2;priority=0", {"delivery_mode": 2, "priority": 0}),
        ("priority=300;nothing=1", {"priority": 255}),
    ],
)
def test_the_fields_of_a_forwarded_message_are_as_noted(
    copy: bytes, noted: str, fields: dict[str, int]
) -> None:
    assert CODEC.read(make_forwarded(CODEC, copy, noted)).fields == fields


def test_an_end_marker_is_read_though_its_stamps_have_no_place() -> None:
    marker = make_end_marker(CODEC, STAMPS, "nonce")

    stamps = read_staged(CODEC, marker)

    assert CODEC.read_stamps(marker) is None
    assert stamps is not None
    assert (stamps.staging_id, stamps.end_marker) == ("s-1", "nonce")


def test_an_envelope_has_its_stamps_anywhere() -> None:
    codec = EnvelopePropertyCodec()

    copy = make_staged(codec, message(codec.empty), STAMPS, "error")

    stamps = read_staged(codec, copy)
    assert codec.read_stamps(copy) is None
    assert codec.cut_stamps(copy, {}) is None
    assert stamps is not None
    assert (stamps.staging_id, stamps.target, stamps.body_size) == ("s-1", "orders", 7)
