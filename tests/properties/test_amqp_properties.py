"""Laws of the AMQP property codec."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from retrier.domain.wire import Edit, UnreadableProperties
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from tests.support.amqp_bytes import (
    FIELDS,
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

CODEC = AmqpPropertyCodec()

names = st.binary(max_size=20)
scalars = st.one_of(
    st.binary(max_size=30).map(string),
    st.binary(max_size=30).map(byte_array),
    st.integers(-(2**63), 2**63 - 1).map(long),
    st.integers(0, 2**64 - 1).map(time),
    st.builds(decimal, st.integers(0, 255), st.integers(-(2**31), 2**31 - 1)),
    st.floats().map(lambda number: b"d" + struct.pack(">d", number)),
    st.booleans().map(lambda flag: b"t" + bytes([flag])),
    st.just(b"V"),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda items: array(*items)),
        st.lists(st.builds(header, names, inner), max_size=4).map(lambda items: table(*items)),
    ),
    max_leaves=8,
)
header_lists = st.lists(st.tuples(names, values), max_size=8)
shorts = st.binary(max_size=255)
octets = st.integers(0, 255)
fields = st.fixed_dictionaries(
    {},
    optional={
        **{name: shorts for name in FIELDS if name != "headers"},
        "delivery_mode": octets,
        "priority": octets,
        "timestamp": st.integers(0, 2**64 - 1),
    },
)


def encode(headers, present):
    return properties(headers=[header(name, value) for name, value in headers], **present)


def shown(name):
    return name.decode("utf-8", "backslashreplace")


def refused(read, raw):
    """Return the words in which the bytes are called unreadable, or None."""
    try:
        read(raw)
    except UnreadableProperties as refusal:
        return str(refusal)
    return None


@given(header_lists, fields)
def test_what_is_read_at_once_is_what_is_read_apart(headers, present):
    raw = encode(headers, present)

    properties, canonical = CODEC.read_with_canonical(raw)

    apart = CODEC.read(raw)
    # Compared as words: a NaN does not equal itself.
    assert repr(dict(properties.headers)) == repr(apart.headers)
    assert dict(properties.fields) == apart.fields
    assert canonical == CODEC.canonical(raw)


@given(header_lists, names.map(shown))
def test_a_header_is_the_last_of_its_name_or_none(headers, more):
    properties, _ = CODEC.read_with_canonical(encode(headers, {}))

    for name in {more, *(shown(each) for each, _ in headers)}:
        found = [value for each, value in headers if shown(each) == name]
        alone = CODEC.read(encode([(b"h", value) for value in found[-1:]], {})).headers
        assert repr(properties.headers.get(name, "none")) == repr(alone.get("h", "none"))
        assert (name in properties.headers) == bool(found)


@given(header_lists, fields, st.data())
def test_what_is_unreadable_apart_is_unreadable_at_once(headers, present, data):
    raw = bytearray(encode(headers, present))
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(octets)

    assert refused(CODEC.read_with_canonical, bytes(raw)) == refused(CODEC.read, bytes(raw))


@given(header_lists, fields)
def test_editing_nothing_changes_nothing(headers, present):
    raw = encode(headers, present)

    assert CODEC.edit(raw, Edit()) == raw


@given(header_lists, fields)
def test_whatever_a_client_may_send_can_be_read(headers, present):
    read = CODEC.read(encode(headers, present))

    assert set(read.headers) == {shown(name) for name, _ in headers}
    assert set(read.fields) == set(present)


@given(header_lists, fields, st.sets(names, max_size=4))
def test_dropping_headers_takes_these_and_leaves_every_other_byte(headers, present, more):
    dropped = {name for name, _ in headers[::2]} | more
    dropped_names = {shown(name) for name in dropped}

    edited = CODEC.edit(encode(headers, present), Edit(drop_headers=dropped_names.__contains__))

    kept = [(name, value) for name, value in headers if shown(name) not in dropped_names]
    assert edited == encode(kept, present)


@given(header_lists, fields, st.dictionaries(st.text(max_size=20), st.text(max_size=20)))
def test_setting_headers_appends_these_and_leaves_every_other_byte(headers, present, new):
    edited = CODEC.edit(encode(headers, present), Edit(set_headers=new))

    kept = [(name, value) for name, value in headers if shown(name) not in new]
    appended = [(name.encode(), string(value)) for name, value in new.items()]
    assert edited == encode(kept + appended, present)


@given(header_lists, fields, st.sets(st.sampled_from(FIELDS)), octets)
def test_fields_are_dropped_and_set_and_no_other_byte_changes(headers, present, dropped, octet):
    edit = Edit(drop_fields=frozenset(dropped), set_fields={"delivery_mode": octet})

    edited = CODEC.edit(encode(headers, present), edit)

    kept = {name: value for name, value in present.items() if name not in dropped}
    table_kept = {} if "headers" in dropped else {"headers": [header(*one) for one in headers]}
    assert edited == properties(**table_kept, **(kept | {"delivery_mode": octet}))


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_read_or_called_unreadable(raw):
    try:
        CODEC.read(raw)
        CODEC.edit(raw, Edit(set_headers={"k": "v"}))
    except UnreadableProperties as refusal:
        assert str(refusal)  # noqa: PT017 - either end is right, with a reason


@given(header_lists, fields, st.data())
def test_bytes_with_one_of_them_wrong_are_read_or_called_unreadable(headers, present, data):
    raw = bytearray(encode(headers, present))
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(octets)

    try:
        CODEC.read(bytes(raw))
        assert CODEC.edit(bytes(raw), Edit()) == bytes(raw)
    except UnreadableProperties as refusal:
        assert str(refusal)  # noqa: PT017 - either end is right, with a reason
