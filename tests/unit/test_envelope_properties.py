"""The codec of Kombu's envelopes: what it reads, what it changes, what it leaves alone."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from kombu.utils.json import loads

from retrier.domain.wire import Edit, PropertyCodec, UnreadableProperties
from retrier.transport.embedded.properties import EnvelopePropertyCodec
from tests.support.kombu_envelopes import SAMPLES, TYPED_HEADERS, envelope

CODEC: PropertyCodec = EnvelopePropertyCodec()

OUTSIDE = {"content_type": "application/json", "content_encoding": "utf-8"}
INSIDE = {
    "delivery_mode": 2,
    "priority": 9,
    "correlation_id": "c-1",
    "reply_to": "answers",
    "expiration": "60000",
    "message_id": "m-1",
    "timestamp": 1_700_000_000,
    "type": "OrderPlaced",
    "user_id": "ada",
    "app_id": "shop",
    "cluster_id": "here",
}
EVERYTHING = envelope(**OUTSIDE, headers={"k": "v"}, properties={**INSIDE, "own": 1}, foreign=[1])


def typed(kind: str, value: object) -> dict[str, object]:
    return {"__type__": kind, "__value__": value}


def test_reads_every_field() -> None:
    read = CODEC.read(EVERYTHING)

    assert dict(read.fields) == {**OUTSIDE, **INSIDE}
    assert read.headers == {"k": "v"}


@pytest.mark.parametrize(
    "raw",
    [
        EVERYTHING,
        b" " + EVERYTHING,
        EVERYTHING.replace(b"user_id", b"user\\u005fid"),
        EVERYTHING.replace(b"user_id", b"user\\u005Fid"),
    ],
    ids=["plain", "behind a space", "escaped", "escaped by capitals"],
)
def test_reads_one_field_however_its_name_is_written(raw: bytes) -> None:
    assert CODEC.read_fields(raw, frozenset({"user_id"})) == {"user_id": "ada"}


@pytest.mark.parametrize("text", ["user_id", 'is "user_id": 7'])
def test_takes_no_text_for_a_field(text: str) -> None:
    raw = envelope(headers={"k": text})

    assert CODEC.read_fields(raw, frozenset({"user_id"})) == {}


def test_reads_an_empty_envelope() -> None:
    read = CODEC.read(CODEC.empty)

    assert (read.headers, read.fields) == ({}, {})


def test_what_is_null_is_absent() -> None:
    raw = envelope(
        content_type=None, headers=None, properties={"delivery_mode": 2, "reply_to": None}
    )

    read = CODEC.read(raw)

    assert (read.headers, read.fields) == ({}, {"delivery_mode": 2})


def test_an_empty_object_of_php_is_absent() -> None:
    read = CODEC.read(envelope(headers=[], properties=[]))

    assert (read.headers, read.fields) == ({}, {})


def test_reads_headers_of_every_type_of_kombu() -> None:
    read = CODEC.read(envelope(headers=TYPED_HEADERS))

    text = {"day": "2024-05-01", "hour": "11:58:00", "id": str(TYPED_HEADERS["id"])}
    number = read.headers["not a number"]
    assert number != number  # noqa: PLR0124 - that is how NaN is told
    assert read.headers == {**TYPED_HEADERS, **text, "not a number": number}


@pytest.mark.parametrize(
    "header",
    [
        typed("unheard of", 1),
        typed("datetime", 5),
        typed("datetime", "yesterday"),
        typed("decimal", "many"),
        typed("uuid", "7"),
        typed("uuid", {"hex": "7"}),
        typed("bytes", 5),
        typed("bytes", "\ud800"),
        typed("base64", "a"),
        typed("base64", None),
        typed([], 1),
        {**typed("datetime", "2024-05-01"), "more": 1},
    ],
    ids=repr,
)
def test_shows_what_only_looks_like_a_type_as_it_is(header: dict[str, object]) -> None:
    raw = json.dumps({"headers": {"h": header}}).encode()

    assert CODEC.read(raw).headers == {"h": header}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1.9, 1),
        (float("inf"), "inf"),
        (datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), 1_700_000_000),
        (datetime(2023, 11, 14, 22, 13, 20), 1_700_000_000),  # noqa: DTZ001 - taken as UTC
        (Decimal("1.5"), "1.5"),
        (b"\x93\x1fid", "\\x93\x1fid"),
        (["a"], "['a']"),
    ],
    ids=repr,
)
def test_shows_a_field_of_another_type_as_number_or_text(value: object, shown: object) -> None:
    raw = envelope(properties={"timestamp": value})

    assert CODEC.read(raw).fields == {"timestamp": shown}


@pytest.mark.parametrize("raw", [raw for raw, _ in SAMPLES.values()], ids=SAMPLES.keys())
def test_editing_nothing_changes_nothing(raw: bytes) -> None:
    assert CODEC.edit(raw, Edit()) == raw


@pytest.mark.parametrize("raw", [raw for raw, _ in SAMPLES.values()], ids=SAMPLES.keys())
def test_a_message_has_one_form_only(raw: bytes) -> None:
    assert CODEC.canonical(raw) == raw


def test_writes_only_ascii_as_kombu_does() -> None:
    assert CODEC.edit(CODEC.empty, Edit(set_headers={"h": "grüße"})) == envelope(
        headers={"h": "grüße"}
    )


def test_drops_the_headers_that_are_named_and_keeps_the_others_in_their_order() -> None:
    raw = envelope(headers={"keep.1": Decimal("12.30"), "drop": 1, "keep.2": b"\xff"}, own=1)

    edited = CODEC.edit(raw, Edit(drop_headers=lambda name: name == "drop"))

    assert edited == envelope(headers={"keep.1": Decimal("12.30"), "keep.2": b"\xff"}, own=1)


def test_a_header_that_is_set_goes_to_the_end() -> None:
    raw = envelope(headers={"k": "old", "other": None})

    edited = CODEC.edit(raw, Edit(set_headers={"k": "new"}))

    assert edited == envelope(headers={"other": None, "k": "new"})


def test_a_header_that_is_dropped_and_set_is_set() -> None:
    raw = envelope(headers={"k": "old"})

    edited = CODEC.edit(raw, Edit(drop_headers=lambda _: True, set_headers={"k": "new"}))

    assert edited == envelope(headers={"k": "new"})


def test_names_of_headers_are_case_sensitive() -> None:
    edited = CODEC.edit(envelope(headers={"K": "kept"}), Edit(set_headers={"k": "new"}))

    assert CODEC.read(edited).headers == {"K": "kept", "k": "new"}


def test_headers_that_lose_their_last_one_stay_as_empty_ones() -> None:
    raw = envelope(headers={"k": "v"})

    assert CODEC.edit(raw, Edit(drop_headers=lambda _: True)) == envelope(headers={})


def test_a_message_without_headers_gets_none_for_nothing() -> None:
    assert CODEC.edit(CODEC.empty, Edit(drop_headers=lambda _: True)) == CODEC.empty


@pytest.mark.parametrize("field", [*OUTSIDE, *INSIDE, "headers"])
def test_drops_a_field(field: str) -> None:
    edited = CODEC.edit(EVERYTHING, Edit(drop_fields=frozenset({field})))

    outside = {name: value for name, value in OUTSIDE.items() if name != field}
    inside = {name: value for name, value in INSIDE.items() if name != field}
    headers = {} if field == "headers" else {"headers": {"k": "v"}}
    assert edited == envelope(**outside, **headers, properties={**inside, "own": 1}, foreign=[1])


@pytest.mark.parametrize("raw", [envelope(), envelope(headers={}), envelope(properties=None)])
def test_dropping_fields_that_are_absent_changes_nothing(raw: bytes) -> None:
    assert CODEC.edit(raw, Edit(drop_fields=frozenset({*OUTSIDE, *INSIDE}))) == raw


@pytest.mark.parametrize("field", ["delivery_mode", "priority"])
def test_sets_an_octet(field: str) -> None:
    edited = CODEC.edit(EVERYTHING, Edit(set_fields={field: 1}))

    properties = {**INSIDE, field: 1, "own": 1}
    assert edited == envelope(**OUTSIDE, headers={"k": "v"}, properties=properties, foreign=[1])


def test_sets_an_octet_where_there_are_no_properties() -> None:
    edited = CODEC.edit(envelope(properties=None), Edit(set_fields={"priority": 1}))

    assert edited == envelope(properties={"priority": 1})


def test_refuses_to_set_a_field_that_is_no_octet() -> None:
    with pytest.raises(ValueError, match="message_id"):
        CODEC.edit(CODEC.empty, Edit(set_fields={"message_id": 1}))


def test_kombu_reads_what_was_edited_as_what_it_wrote() -> None:
    headers = {name: value for name, value in TYPED_HEADERS.items() if name != "not a number"}

    edited = CODEC.edit(envelope(headers=headers), Edit(set_headers={"k": "v"}))

    assert loads(edited) == {"headers": {**headers, "k": "v"}}


UNREADABLE = {
    "nothing": b"",
    "no JSON": b"{",
    "no UTF-8": b'{"a": "\xff"}',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "no object": b"[]",
    "headers that are a list": b'{"headers": [1]}',
    "properties that are a text": b'{"properties": "p"}',
    "more nesting than a stack holds": b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a number beyond all measure": b'{"a": ' + b"1" * 10_000 + b"}",
}


@pytest.mark.parametrize("raw", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_says_that_it_cannot_read_or_edit(raw: bytes) -> None:
    for attempt in (CODEC.read, CODEC.canonical, lambda raw: CODEC.edit(raw, Edit())):
        with pytest.raises(UnreadableProperties):
            attempt(raw)


def nested(levels: int) -> bytes:
    """Write an envelope of so many levels in all."""
    return b'{"a": ' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


def test_reads_and_edits_what_is_nested_deeply() -> None:
    assert CODEC.edit(nested(64), Edit()) == nested(64)


@pytest.mark.parametrize("levels", [65, 500])
def test_does_not_run_out_of_stack_on_lists_in_lists(levels: int) -> None:
    with pytest.raises(UnreadableProperties, match="nested more than 64 deep"):
        CODEC.read(nested(levels))


def test_many_values_are_not_deep_values() -> None:
    raw = envelope(headers={"many": [1, {}] * 100})

    assert CODEC.edit(raw, Edit()) == raw


def test_a_content_type_is_set() -> None:
    edited = CODEC.edit(EVERYTHING, Edit(set_fields={"content_type": "application/json"}))

    before, after = CODEC.read(EVERYTHING), CODEC.read(edited)
    assert dict(after.fields) == {**before.fields, "content_type": "application/json"}
    assert dict(after.headers) == dict(before.headers)
