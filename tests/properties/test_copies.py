"""Laws of the copies that go through the staging queue: made, read and forwarded."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from retrier.domain import headers
from retrier.domain.amqp_fields import table_of
from retrier.domain.amqp_properties import AmqpPropertyCodec
from retrier.domain.amqp_table import LENGTH, entries
from retrier.domain.copies import Stamps, make_forwarded, make_staged, read_staged
from retrier.domain.dialects import strips
from retrier.domain.retry_batch import ClaimedMessage
from retrier.domain.wire import UnreadableProperties
from tests.properties.test_amqp_properties import encode, fields, header_lists, shown, values
from tests.support.amqp_bytes import header, long, string, table, with_length


class WalkingCodec(AmqpPropertyCodec):
    """Finds stamps only by walking all headers."""

    def read_stamps(self, _raw):
        return None

    def cut_stamps(self, _raw, _octets):
        return None


CODEC, WALKING = AmqpPropertyCodec(), WalkingCodec()

special = st.sampled_from(
    [
        *sorted(headers.STAGING_ONLY | headers.BROKER_COUNTERS | headers.FAN_OUT),
        headers.UNIQUE_MESSAGE_ID,
        headers.RETRY_ID,
        headers.COMPLETED_STEPS,
        "Retrier.FailedQueue",
        "NServiceBus.FailedQ",
    ]
)
special_headers = st.lists(st.tuples(special.map(str.encode), values), max_size=4)
texts = st.text(max_size=20)
COUNTER = header("x-delivery-count", long(1))
messages = st.builds(
    ClaimedMessage,
    unique_message_id=texts,
    retry_id=texts,
    dialect=st.sampled_from(["nservicebus", "retrier", "rabbitmq", "of nobody"]),
    error_queue=texts,
    destination=texts,
    raw=st.builds(
        lambda own, more, present: encode([*own[1:], *more, *own[:1]], present),
        header_lists,
        special_headers,
        fields,
    ),
    body_size=st.integers(0, 2**40),
    completed_steps=st.none() | texts,
)
stampings = st.builds(
    Stamps, staging_id=texts, installation_id=texts, own_user=st.none() | st.just("guest")
)


def make_copy(message, stamps):
    return make_staged(CODEC, message, stamps, "error")


def entries_of(raw):
    start, end = table_of(raw)
    return entries(raw[start:end])


def with_entries(raw, table):
    """Return the same properties with these headers."""
    start, end = table_of(raw)
    return raw[: start - LENGTH] + with_length(b"".join(table)) + raw[end:]


def outcome(codec, raw):
    """Return what a copy is taken for, and what would be forwarded."""
    copy = read_staged(codec, raw)
    return copy, copy and make_forwarded(codec, raw, copy.noted)


@given(messages, stampings)
def test_the_stamps_of_every_copy_are_found_without_a_walk(message, stamps):
    assert CODEC.read_stamps(make_copy(message, stamps)) is not None


@given(messages, stampings)
def test_every_copy_is_read_and_forwarded_as_if_its_headers_were_walked(message, stamps):
    copy = make_copy(message, stamps)

    assert outcome(CODEC, copy) == outcome(WALKING, copy)


@given(messages, stampings.filter(lambda stamps: stamps.staging_id))
def test_a_copy_says_what_was_stamped(message, stamps):
    copy = read_staged(CODEC, make_copy(message, stamps))

    assert copy.staging_id == stamps.staging_id
    assert copy.installation_id == (stamps.installation_id or None)
    assert copy.unique_message_id == message.unique_message_id
    assert copy.target == message.destination
    assert copy.body_size == message.body_size
    assert copy.end_marker is None


@given(header_lists, special_headers, fields, messages, stampings)
def test_what_is_forwarded_is_what_came_and_the_retry_headers(own, more, present, message, stamps):
    came = replace(message, raw=encode([*own, *more], present))
    copy = make_copy(came, replace(stamps, staging_id="s"))

    _, forwarded = outcome(CODEC, copy)

    retry = {
        headers.RETRY_ID: came.retry_id,
        headers.ACKNOWLEDGEMENT_QUEUE: "error",
        headers.COMPLETED_STEPS: came.completed_steps,
        headers.UNIQUE_MESSAGE_ID: came.unique_message_id,
    }
    retry = {name: value for name, value in retry.items() if value is not None}
    gone = headers.STAGING_ONLY | headers.FAN_OUT | retry.keys()
    kept = [
        (name, value)
        for name, value in [*own, *more]
        if shown(name) not in gone and not strips(came.dialect, shown(name))
    ]
    added = [(name.encode(), string(value)) for name, value in retry.items()]
    sent = {name: value for name, value in present.items() if name != "expiration"}
    if stamps.own_user is None or sent.get("user_id") != stamps.own_user.encode():
        sent.pop("user_id", None)
    assert forwarded == encode([*kept, *added], sent)


@given(messages, stampings, st.data())
def test_a_copy_whose_headers_somebody_moved_is_what_a_walk_makes_of_it(message, stamps, data):
    copy = make_copy(message, stamps)
    moved = with_entries(copy, data.draw(st.permutations(entries_of(copy))))

    assert outcome(CODEC, moved) == outcome(WALKING, moved)


@given(messages, stampings, st.just(COUNTER) | st.builds(header, special, values))
def test_a_copy_that_a_broker_wrote_into_and_sorted_is_walked(message, stamps, counter):
    copy = make_copy(message, stamps)
    sorted_anew = with_entries(copy, sorted([*entries_of(copy), counter]))

    assert CODEC.read_stamps(sorted_anew) is None
    assert outcome(CODEC, sorted_anew) == outcome(WALKING, sorted_anew)


@given(messages, stampings, st.builds(header, special, values), st.data())
def test_a_copy_that_a_header_was_put_into_anywhere_is_walked(message, stamps, more, data):
    table = entries_of(copy := make_copy(message, stamps))
    place = data.draw(st.integers(0, len(table)))

    changed = with_entries(copy, [*table[:place], more, *table[place:]])

    assert CODEC.read_stamps(changed) is None
    assert outcome(CODEC, changed) == outcome(WALKING, changed)


@given(messages, stampings, st.data())
def test_a_copy_that_a_header_was_taken_out_of_anywhere_is_walked(message, stamps, data):
    table = entries_of(copy := make_copy(message, stamps))
    place = data.draw(st.integers(0, len(table) - 1))

    changed = with_entries(copy, [*table[:place], *table[place + 1 :]])

    assert CODEC.read_stamps(changed) is None
    assert outcome(CODEC, changed) == outcome(WALKING, changed)


@given(messages, stampings, header_lists, st.booleans())
def test_a_copy_wrapped_up_in_another_message_is_no_copy(message, stamps, others, is_table):
    start, end = table_of(copy := make_copy(message, stamps))
    inside = table(copy[start:end]) if is_table else string(copy[start:end])
    wrapped = encode([*others, (b"wrapped", inside)], {})

    assert CODEC.read_stamps(wrapped) is None
    assert outcome(CODEC, wrapped) == outcome(WALKING, wrapped)


@given(messages, stampings, st.data())
def test_a_copy_with_one_byte_of_its_stamps_wrong_is_what_a_walk_makes_of_it(message, stamps, data):
    copy = bytearray(make_copy(message, stamps))
    start, end = table_of(bytes(copy))
    first = start + int(CODEC.read(bytes(copy)).headers[headers.LAYOUT])
    copy[data.draw(st.integers(first, end - 1))] = data.draw(st.integers(0, 255))

    assert outcome(CODEC, bytes(copy)) == outcome(WALKING, bytes(copy))


@given(messages, stampings, st.data())
def test_a_copy_with_any_byte_wrong_is_a_copy_of_something_or_of_nothing(message, stamps, data):
    copy = bytearray(make_copy(message, stamps))
    copy[data.draw(st.integers(0, len(copy) - 1))] = data.draw(st.integers(0, 255))

    taken = read_staged(CODEC, bytes(copy))

    assert taken is None or make_forwarded(CODEC, bytes(copy), taken.noted)


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_have_stamps_or_none_or_are_called_unreadable(raw):
    try:
        assert CODEC.read_stamps(raw) is None
    except UnreadableProperties as refusal:
        assert str(refusal)  # noqa: PT017 - either end is right, with a reason
