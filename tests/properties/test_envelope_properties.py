"""Laws of the codec of Kombu's envelopes."""

import json
from datetime import UTC

from hypothesis import given
from hypothesis import strategies as st
from kombu.utils.json import loads

from retrier.domain.wire import Edit, UnreadableProperties
from retrier.transport.embedded.properties import INSIDE, EnvelopePropertyCodec
from tests.support.kombu_envelopes import envelope

CODEC = EnvelopePropertyCodec()

texts = st.text(st.characters(), max_size=10)
scalars = st.one_of(
    texts,
    st.binary(max_size=20),
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.decimals(),
    st.datetimes(timezones=st.sampled_from([None, UTC])),
    st.dates(),
    st.times(),
    st.uuids(),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=4,
)
headers = st.dictionaries(texts, values, max_size=3)
fields = st.dictionaries(st.sampled_from(INSIDE), values, max_size=3)
others = st.dictionaries(texts.filter(lambda name: name not in INSIDE), values, max_size=3)


def write(held, properties, own):
    return envelope(headers=held, properties=properties, own=own)


@given(headers, fields, others)
def test_editing_nothing_changes_nothing(held, present, own):
    raw = write(held, present, own)

    assert CODEC.edit(raw, Edit()) == raw
    assert CODEC.canonical(raw) == raw


@given(headers, fields, others)
def test_what_is_read_at_once_is_what_is_read_apart(held, present, own):
    raw = write(held, present, own)

    # Compared as words: a NaN does not equal itself.
    assert repr(CODEC.read_with_canonical(raw)) == repr((CODEC.read(raw), CODEC.canonical(raw)))


@given(headers, fields, others)
def test_whatever_kombu_writes_can_be_read(held, present, own):
    read = CODEC.read(write(held, present, own))

    assert read.headers.keys() == held.keys()
    assert read.fields.keys() == {name for name, value in present.items() if value is not None}


@given(headers, fields, others, st.sets(texts, max_size=4))
def test_dropping_headers_takes_these_and_leaves_every_other_byte(held, present, own, more):
    dropped = {*list(held)[::2], *more}

    edited = CODEC.edit(write(held, present, own), Edit(drop_headers=dropped.__contains__))

    kept = {name: value for name, value in held.items() if name not in dropped}
    assert edited == write(kept, present, own)


@given(headers, fields, others, st.dictionaries(texts, texts, max_size=4))
def test_setting_headers_appends_these_and_leaves_every_other_byte(held, present, own, new):
    edited = CODEC.edit(write(held, present, own), Edit(set_headers=new))

    kept = {name: value for name, value in held.items() if name not in new}
    assert edited == write({**kept, **new}, present, own)


@given(headers, fields, others, st.sets(st.sampled_from(INSIDE)), st.integers(0, 255))
def test_fields_are_dropped_and_set_and_no_other_byte_changes(held, present, own, dropped, octet):
    edit = Edit(drop_fields=frozenset(dropped), set_fields={"delivery_mode": octet})

    edited = CODEC.edit(write(held, present, own), edit)

    kept = {name: value for name, value in present.items() if name not in dropped}
    assert edited == write(held, {**kept, "delivery_mode": octet}, own)


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.one_of(texts, st.sampled_from(["__type__", "__value__", "headers", "properties"])),
            st.one_of(inner, st.sampled_from(["datetime", "decimal", "uuid", "bytes", "base64"])),
            max_size=4,
        ),
    ),
    max_leaves=4,
)


@given(json_values)
def test_json_of_any_kind_is_read_or_called_unreadable(value):
    raw = json.dumps(value).encode()

    try:
        CODEC.read(raw)
        assert CODEC.edit(raw, Edit()) == raw
    except UnreadableProperties as refusal:
        assert str(refusal)  # noqa: PT017 - either end is right, with a reason


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_read_or_called_unreadable(raw):
    try:
        CODEC.read(raw)
        CODEC.edit(raw, Edit(set_headers={"k": "v"}))
    except UnreadableProperties as refusal:
        assert str(refusal)  # noqa: PT017 - either end is right, with a reason


@given(st.dictionaries(texts, st.one_of(texts, st.binary(), st.integers(), st.uuids()), max_size=6))
def test_kombu_reads_the_same_values_after_an_edit(held):
    edited = CODEC.edit(envelope(headers=held), Edit(set_fields={"priority": 1}))

    assert loads(edited)["headers"] == held
