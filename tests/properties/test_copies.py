"""Laws of the copies that go through the staging queue, and of what is sent back for them."""

from hypothesis import given
from hypothesis import strategies as st

from retrier.domain import headers
from retrier.domain.copies import SendingTerms, Stamps, make_forwarded, make_staged, read_staged
from retrier.domain.dialects import strips
from retrier.domain.retry_batch import ClaimedMessage, StoredOriginal
from retrier.domain.wire import Edit
from retrier.transport.embedded.properties import EnvelopePropertyCodec
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec, entries
from tests.properties.test_amqp_properties import encode, fields, header_lists, shown, values
from tests.support.amqp_bytes import string, table
from tests.support.rabbitmq_habits import table_of

AMQP = AmqpPropertyCodec()

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
codecs = st.sampled_from([AMQP, EnvelopePropertyCodec()])
claims = st.builds(
    ClaimedMessage,
    number=st.integers(1, 10**18 - 1),
    unique_message_id=texts,
    retry_id=texts,
    destination=texts,
    size=st.integers(0, 2**40),
)
stampings = st.builds(Stamps, staging_id=st.text(min_size=1, max_size=20), installation_id=texts)
dialects = st.sampled_from(["nservicebus", "retrier", "rabbitmq", "of nobody"])


@given(codecs, claims, stampings)
def test_a_copy_says_what_was_stamped(codec, claim, stamps):
    copy = read_staged(codec, make_staged(codec, claim, stamps))

    assert copy.staging_id == stamps.staging_id
    assert copy.installation_id == (stamps.installation_id or None)
    assert (copy.number, copy.size) == (claim.number, claim.size)
    assert copy.unique_message_id == claim.unique_message_id
    assert copy.retry_id == claim.retry_id
    assert copy.target == claim.destination
    assert copy.end_marker is None


@given(claims, stampings, st.lists(st.tuples(special, texts), max_size=3))
def test_a_copy_says_the_same_when_a_broker_put_its_own_headers_in(claim, stamps, more):
    copy = make_staged(AMQP, claim, stamps)
    others = {name: text for name, text in more if name not in AMQP.read(copy).headers}
    others.pop(headers.END_MARKER, None)

    assert read_staged(AMQP, AMQP.edit(copy, Edit(set_headers=others))) == read_staged(AMQP, copy)


@given(claims, stampings, st.data())
def test_a_copy_says_the_same_whatever_the_order_of_its_headers(claim, stamps, data):
    copy = make_staged(AMQP, claim, stamps)
    start, end = table_of(copy)
    moved = data.draw(st.permutations(entries(copy[start:end])))

    assert read_staged(AMQP, copy[:start] + b"".join(moved) + copy[end:]) == read_staged(AMQP, copy)


@given(claims, stampings, header_lists, st.booleans())
def test_a_copy_wrapped_up_in_another_message_is_no_copy(claim, stamps, others, is_table):
    copy = make_staged(AMQP, claim, stamps)
    start, end = table_of(copy)
    inside = table(copy[start:end]) if is_table else string(copy[start:end])

    assert read_staged(AMQP, encode([*others, (b"wrapped", inside)], {})) is None


came = st.tuples(st.builds(lambda own, more: [*own, *more], header_lists, special_headers), fields)
users = st.none() | st.just("guest")


@given(came, claims, dialects, st.none() | texts, users)
def test_what_is_sent_back_is_what_failed_and_the_retry_headers(came, claim, dialect, steps, user):
    own, present = came
    original = StoredOriginal(encode(own, present), b"", dialect, "failed", steps)
    stamps = Stamps(staging_id="s", installation_id="i")
    copy = read_staged(AMQP, make_staged(AMQP, claim, stamps))

    sent = make_forwarded(
        AMQP, original, copy, SendingTerms(acknowledgement_queue="error", own_user=user)
    )

    retry = {
        headers.RETRY_ID: claim.retry_id,
        headers.ACKNOWLEDGEMENT_QUEUE: "error",
        headers.COMPLETED_STEPS: steps,
        headers.UNIQUE_MESSAGE_ID: claim.unique_message_id,
    }
    retry = {name: value for name, value in retry.items() if value is not None}
    gone = headers.STAGING_ONLY | headers.FAN_OUT | headers.BROKER_COUNTERS | retry.keys()
    kept = [
        (name, value)
        for name, value in own
        if shown(name) not in gone and not strips(dialect, shown(name))
    ]
    added = [(name.encode(), string(value)) for name, value in retry.items()]
    left = {name: value for name, value in present.items() if name != "expiration"}
    if user is None or left.get("user_id") != user.encode():
        left.pop("user_id", None)
    left["delivery_mode"] = 2
    assert sent == encode([*kept, *added], left)


@given(claims, stampings, st.data())
def test_a_copy_with_any_byte_wrong_is_a_copy_of_something_or_of_nothing(claim, stamps, data):
    copy = bytearray(make_staged(AMQP, claim, stamps))
    copy[data.draw(st.integers(0, len(copy) - 1))] = data.draw(st.integers(0, 255))

    taken = read_staged(AMQP, bytes(copy))

    assert taken is None or taken.number >= 0


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_a_copy_or_none(raw):
    taken = read_staged(AMQP, raw)

    assert taken is None or taken.staging_id
