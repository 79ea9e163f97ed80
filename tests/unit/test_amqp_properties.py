"""The AMQP property codec: what it reads, what it changes, what it leaves alone."""

import struct
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from retrier.domain.wire import Edit, PropertyCodec, UnreadableProperties
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from tests.support.amqp_bytes import (
    NO_PROPERTIES,
    array,
    byte_array,
    decimal,
    header,
    long,
    properties,
    string,
    table,
    time,
)
from tests.support.raw_messages import raw_properties

CODEC: PropertyCodec = AmqpPropertyCodec()

ALL_FIELDS = {
    "content_type": "application/json",
    "content_encoding": "utf-8",
    "delivery_mode": 2,
    "priority": 255,
    "correlation_id": "c-1",
    "reply_to": "answers",
    "expiration": "60000",
    "message_id": "m-1",
    "timestamp": 1_700_000_000_000,
    "type": "OrderPlaced",
    "user_id": "guest",
    "app_id": "shop",
    "cluster_id": "here",
}

VALUES = {
    "t true": (b"t\x01", True),
    "t false": (b"t\x00", False),
    "b": (b"b\xff", -1),
    "B": (b"B\xff", 255),
    "s is a short integer": (b"s\xff\xfe", -2),
    "U": (b"U\xff\xfe", -2),
    "u": (b"u\xff\xfe", 65534),
    "I": (b"I" + struct.pack(">i", -(2**31)), -(2**31)),
    "i": (b"i" + struct.pack(">I", 2**32 - 1), 2**32 - 1),
    "l is signed": (long(-(2**63)), -(2**63)),
    "L is signed": (b"L" + struct.pack(">q", -5), -5),
    "f": (b"f" + struct.pack(">f", 1.5), 1.5),
    "d": (b"d" + struct.pack(">d", 0.1), 0.1),
    "D": (decimal(2, -1230), Decimal("-12.30")),
    "D with many places": (decimal(255, 7), Decimal(7).scaleb(-255)),
    "S": (string("grüße"), "grüße"),
    "S that is not UTF-8": (string(b"a\xff\xfe"), r"a\xff\xfe"),
    "x": (byte_array(b"\x00\xff"), b"\x00\xff"),
    "T": (time(1_700_000_000), datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)),
    "T in milliseconds": (time(1_700_000_000_000), 1_700_000_000_000),
    "T at its end": (time(2**64 - 1), 2**64 - 1),
    "V": (b"V", None),
    "A": (
        array(string("x"), array(b"V"), table(header("k", b"t\x01"))),
        ["x", [None], {"k": True}],
    ),
    "F": (table(header("a", table(header("b", array(long(1)))))), {"a": {"b": [1]}}),
    "an empty F": (table(), {}),
    "an empty A": (array(), []),
}


@pytest.mark.parametrize(("encoded", "decoded"), VALUES.values(), ids=VALUES.keys())
def test_reads_a_header_of_type(encoded, decoded):
    raw = properties(
        headers=[header("before", b"V"), header("key", encoded), header("after", b"V")]
    )

    read = CODEC.read(raw)

    assert read.headers == {"before": None, "key": decoded, "after": None}
    assert type(read.headers["key"]) is type(decoded)


def test_keeps_the_trailing_zeros_of_a_decimal():
    raw = properties(headers=[header("price", decimal(2, 1230))])

    assert str(CODEC.read(raw).headers["price"]) == "12.30"


def test_reads_every_field():
    raw = properties(headers=[header("h", string("v"))], **ALL_FIELDS)

    read = CODEC.read(raw)

    assert dict(read.fields) == ALL_FIELDS
    assert read.headers == {"h": "v"}


def test_reads_a_message_without_properties():
    read = CODEC.read(NO_PROPERTIES)

    assert (read.headers, read.fields) == ({}, {})


def test_shows_a_binary_correlation_id_with_escapes():
    raw = properties(correlation_id=b"\x93\x1fid")

    assert CODEC.read(raw).fields["correlation_id"] == "\\x93\x1fid"


def test_shows_a_header_name_that_is_not_utf_8_with_escapes():
    raw = properties(headers=[header(b"\xff", string("v"))])

    assert CODEC.read(raw).headers == {r"\xff": "v"}


EVERYTHING = properties(
    headers=[header(f"{number}", encoded) for number, (encoded, _) in enumerate(VALUES.values())],
    **ALL_FIELDS,
)


def test_editing_nothing_changes_nothing():
    assert CODEC.edit(EVERYTHING, Edit()) == EVERYTHING


def test_drops_the_headers_that_are_named_and_keeps_the_bytes_of_the_others():
    raw = properties(
        headers=[
            header("keep.1", decimal(2, 1230)),
            header("drop.1", string("x")),
            header("keep.2", byte_array(b"\xff")),
            header("drop.2", table()),
        ],
        message_id="m-1",
    )

    edited = CODEC.edit(raw, Edit(drop_headers=lambda name: name.startswith("drop.")))

    assert edited == properties(
        headers=[header("keep.1", decimal(2, 1230)), header("keep.2", byte_array(b"\xff"))],
        message_id="m-1",
    )


def test_a_header_that_is_set_replaces_all_of_that_name_at_the_end():
    raw = properties(
        headers=[header("k", long(1)), header("other", b"V"), header("k", string("old"))]
    )

    edited = CODEC.edit(raw, Edit(set_headers={"k": "nëw"}))

    assert edited == properties(headers=[header("other", b"V"), header("k", string("nëw"))])


def test_a_header_that_is_dropped_and_set_is_set():
    raw = properties(headers=[header("k", string("old"))])

    edited = CODEC.edit(raw, Edit(drop_headers=lambda _: True, set_headers={"k": "new"}))

    assert edited == properties(headers=[header("k", string("new"))])


def test_names_of_headers_are_case_sensitive():
    raw = properties(headers=[header("K", string("kept"))])

    edited = CODEC.edit(raw, Edit(set_headers={"k": "new"}))

    assert CODEC.read(edited).headers == {"K": "kept", "k": "new"}


def test_setting_a_header_makes_a_table_where_there_is_none():
    raw = properties(content_type="text/plain", message_id="m-1")

    edited = CODEC.edit(raw, Edit(set_headers={"k": "v"}))

    assert edited == properties(
        content_type="text/plain", headers=[header("k", string("v"))], message_id="m-1"
    )


def test_a_table_that_loses_its_last_header_stays_as_an_empty_one():
    raw = properties(headers=[header("k", string("v"))])

    assert CODEC.edit(raw, Edit(drop_headers=lambda _: True)) == properties(headers=[])


def test_a_message_without_a_table_gets_none_for_nothing():
    assert CODEC.edit(NO_PROPERTIES, Edit(drop_headers=lambda _: True)) == NO_PROPERTIES


@pytest.mark.parametrize("field", [*ALL_FIELDS, "headers"])
def test_drops_a_field(field):
    everything = ALL_FIELDS | {"headers": [header("h", b"V")]}

    edited = CODEC.edit(properties(**everything), Edit(drop_fields=frozenset({field})))

    assert edited == properties(**{k: v for k, v in everything.items() if k != field})


def test_dropping_a_field_that_is_absent_changes_nothing():
    raw = properties(message_id="m-1")

    assert CODEC.edit(raw, Edit(drop_fields=frozenset({"user_id"}))) == raw


@pytest.mark.parametrize("field", ["delivery_mode", "priority"])
@pytest.mark.parametrize("before", [{}, {"delivery_mode": 1, "priority": 9}])
def test_sets_an_octet(field, before):
    raw = properties(content_type="text/plain", message_id="m-1", **before)

    edited = CODEC.edit(raw, Edit(set_fields={field: 2}))

    assert edited == properties(
        **{"content_type": "text/plain", "message_id": "m-1", **before, field: 2}
    )


def test_refuses_to_set_a_field_that_is_no_octet():
    with pytest.raises(ValueError, match="message_id"):
        CODEC.edit(NO_PROPERTIES, Edit(set_fields={"message_id": 1}))


def test_passes_the_flags_on_that_amqp_leaves_open():
    raw = b"\x00\x03"

    assert CODEC.edit(raw, Edit(set_fields={"priority": 1})) == b"\x08\x03\x01"


UNREADABLE = {
    "no flags": b"",
    "half the flags": b"\x80",
    "a text without its length": b"\x80\x00",
    "a text cut short": b"\x80\x00\x05abc",
    "a table without its length": b"\x20\x00\x00\x00",
    "a table cut short": b"\x20\x00\x00\x00\x00\x09\x01kS",
    "an octet that is missing": b"\x10\x00",
    "a timestamp cut short": b"\x00\x40\x00\x00",
    "bytes behind the last property": b"\x00\x00x",
    "a header without a value": properties(headers=[b"\x01k"]),
    "a header name cut short": properties(headers=[b"\x09k"]),
    "a value cut short": properties(headers=[header("k", b"l\x00\x00")]),
    "a value longer than its table": properties(headers=[header("k", b"S\x00\x00\x00\x09x")]),
    "a letter nobody knows": properties(headers=[header("k", b"Z\x00")]),
}


@pytest.mark.parametrize("raw", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_says_that_it_cannot_read_or_edit(raw):
    with pytest.raises(UnreadableProperties):
        CODEC.read(raw)
    with pytest.raises(UnreadableProperties):
        CODEC.edit(raw, Edit(set_headers={"k": "v"}))


NESTED = {
    "an unknown letter": table(header("k", b"Z\x00")),
    "a value cut short": array(b"l\x00"),
}


@pytest.mark.parametrize("value", NESTED.values(), ids=NESTED.keys())
def test_says_that_it_cannot_read_a_nested_value_but_passes_it_on(value):
    raw = properties(headers=[header("nested", value)])

    edited = CODEC.edit(raw, Edit(set_fields={"priority": 1}))

    assert edited == properties(headers=[header("nested", value)], priority=1)
    with pytest.raises(UnreadableProperties):
        CODEC.read(raw)


def test_does_not_run_out_of_stack_on_arrays_in_arrays():
    value = b""
    for _ in range(2000):
        value = array(value)

    with pytest.raises(UnreadableProperties, match="nested"):
        CODEC.read(properties(headers=[header("deep", value)]))


@pytest.mark.parametrize("before", [{}, {"content_type": "text/plain"}])
def test_a_content_type_is_set_and_nothing_else_changes(before: dict[str, str]) -> None:
    raw = raw_properties({"Shop.Tenant": "north"}, priority=1, **before)

    edited = CODEC.edit(raw, Edit(set_fields={"content_type": "application/json"}))

    assert edited == raw_properties(
        {"Shop.Tenant": "north"}, content_type="application/json", priority=1
    )
