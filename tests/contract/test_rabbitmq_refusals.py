"""RabbitMQ refusing messages, one by one, within a window that goes on."""

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from retrier.domain.wire import ChannelClosed, Confirmed, Outgoing, Refused, Returned
from retrier.transport.rabbitmq import RabbitMQTransport
from retrier.transport.rabbitmq.address import parse_address
from retrier.transport.rabbitmq.connection import BrokerConnection
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from retrier.transport.rabbitmq.publisher import NACK, RabbitMQPublisher
from tests.contract.transport_fixtures import nothing
from tests.support.amqp_bytes import NO_PROPERTIES, array, header, properties, string
from tests.support.copies import retry_of
from tests.support.far_side import FarSide
from tests.support.rabbitmq_habits import RabbitMQHabits

pytestmark = pytest.mark.rabbitmq

LIMITED = {"x_max_length": 5, "x_overflow": "reject-publish"}


def message(queue: str, body: bytes = b"x", raw: bytes = NO_PROPERTIES) -> Outgoing:
    return Outgoing(queue=queue, raw=raw, body=body)


@pytest.fixture
def publisher(amqp_url: str) -> Iterator[RabbitMQPublisher]:
    publisher = RabbitMQTransport(amqp_url, connection_name="refusals").publisher()
    yield publisher
    publisher.close()


def test_a_full_queue_refuses_and_the_rest_of_the_window_goes_on(
    publisher: RabbitMQPublisher,
    far_side: FarSide,
    classic_queue: str,
    queue_name: Callable[..., str],
) -> None:
    full = far_side.declare(queue_name("full"), **LIMITED)
    window = [message(full)] * 7 + [message(classic_queue)]

    outcomes = publisher.publish(window, nothing)

    assert Counter(map(type, outcomes[:7])) == {Confirmed: 5, Refused: 2}
    assert not any(each.unsendable for each in outcomes[:7] if isinstance(each, Refused))
    assert outcomes[7] == Confirmed()


def test_a_body_above_the_size_that_the_broker_takes_is_refused_with_the_reason_and_work_goes_on(
    publisher: RabbitMQPublisher, habits: RabbitMQHabits, classic_queue: str
) -> None:
    body = bytes(17 << 20)

    (outcome,) = publisher.publish([message(classic_queue, body)], nothing)

    if len(body) <= habits.largest_body:
        assert outcome == Confirmed()
    else:
        assert isinstance(outcome, ChannelClosed)
        assert "larger than configured max size" in outcome.reason
        assert outcome.unsendable
    assert publisher.publish([message(classic_queue)], nothing) == (Confirmed(),)


def test_a_window_over_five_queues_is_told_apart_message_by_message(
    publisher: RabbitMQPublisher,
    far_side: FarSide,
    classic_queue: str,
    queue_name: Callable[..., str],
) -> None:
    quorum = far_side.declare(queue_name("quorum"), x_queue_type="quorum")
    full = far_side.declare(queue_name("full"), **LIMITED)
    full_quorum = far_side.declare(queue_name("full"), x_queue_type="quorum", **LIMITED)
    missing = queue_name("missing")
    queues = [classic_queue, full, missing, quorum, full_quorum]
    window = [message(queues[number % 5], b"%d" % number) for number in range(1000)]

    outcomes = publisher.publish(window, nothing)

    told = Counter(
        (sent.queue, type(outcome)) for sent, outcome in zip(window, outcomes, strict=True)
    )
    assert told[classic_queue, Confirmed] == far_side.count(classic_queue) == 200
    assert told[quorum, Confirmed] == far_side.count(quorum) == 200
    assert told[full, Confirmed] == far_side.count(full) == 5
    assert told[full, Refused] == 195
    assert told[full_quorum, Confirmed] == far_side.count(full_quorum) < 200
    assert told[full_quorum, Refused] == 200 - told[full_quorum, Confirmed]
    assert told[missing, Returned] == 200


def test_a_return_says_what_the_broker_said(
    publisher: RabbitMQPublisher, queue_name: Callable[..., str]
) -> None:
    (outcome,) = publisher.publish([message(queue_name("missing"))], nothing)

    assert outcome == Returned("312 NO_ROUTE")


def test_a_return_whose_properties_the_broker_changed_is_told_all_the_same(
    publisher: RabbitMQPublisher, classic_queue: str, queue_name: Callable[..., str]
) -> None:
    blind = properties(headers=[header("BCC", array(string(queue_name("missing"))))])
    window = [message(classic_queue), message(queue_name("missing"), raw=blind)]

    outcomes = publisher.publish(window, nothing)

    assert outcomes == (Confirmed(), Returned("312 NO_ROUTE"))


def test_a_window_after_a_refusal_goes_over_a_new_channel_of_the_same_connection(
    amqp_url: str, far_side: FarSide, classic_queue: str, queue_name: Callable[..., str]
) -> None:
    # Given a refusal: a channel may never hear that a full quorum queue has room again
    full = far_side.declare(queue_name("full"), **LIMITED)
    connection = BrokerConnection(parse_address(amqp_url), "refusals", 5, timeout=5)
    publisher = RabbitMQPublisher(lambda: connection, None)
    channels = [connection.channel]

    # When windows go out after it, one of which is refused again
    window = [message(full), *[message(classic_queue)] * 3]
    told = []
    for queues in ([message(full)] * 6, window, [message(classic_queue)], [message(classic_queue)]):
        told.append(publisher.publish(queues, nothing))
        channels.append(connection.channel)

    # Then each refusal is followed by one new channel, on which tags are counted anew
    assert told[1:] == [(Refused(NACK), *[Confirmed()] * 3), (Confirmed(),), (Confirmed(),)]
    assert far_side.count(classic_queue) == 5
    assert channels[0] is channels[1]
    assert len({id(each) for each in channels[1:4]}) == 3
    assert channels[3] is channels[4]
    assert [each.is_open for each in channels[1:4]] == [False, False, True]
    publisher.close()


TOO_LONG = "q" * 256
TOO_LARGE = properties(headers=[header("stack", string(b"x" * 131_072))])


@pytest.mark.parametrize(
    ("queue", "raw", "reason"),
    [(TOO_LONG, NO_PROPERTIES, "255 bytes"), ("q", TOO_LARGE, "properties")],
    ids=["a name too long", "properties too large"],
)
def test_what_no_frame_can_hold_is_refused_before_it_is_sent(
    publisher: RabbitMQPublisher, classic_queue: str, queue: str, raw: bytes, reason: str
) -> None:
    window = [message(classic_queue), message(queue, raw=raw), message(classic_queue)]

    outcomes = publisher.publish(window, nothing)

    assert (outcomes[0], outcomes[2]) == (Confirmed(), Confirmed())
    assert isinstance(outcomes[1], Refused)
    assert reason in outcomes[1].reason
    assert outcomes[1].unsendable


def test_properties_that_just_fit_a_frame_are_sent(
    publisher: RabbitMQPublisher, classic_queue: str
) -> None:
    around = len(properties(headers=[header("k", string(b""))])) + len(b"class, weight, size, end")
    fitting = properties(headers=[header("k", string(b"x" * (131_072 - around)))])

    assert publisher.publish([message(classic_queue, raw=fitting)], nothing) == (Confirmed(),)


def test_what_nearly_fills_a_frame_goes_back_without_a_header(
    publisher: RabbitMQPublisher, classic_queue: str
) -> None:
    came = properties(headers=[header("k", string(b"x" * 131_000)), header("tenant", string(b"a"))])
    codec = AmqpPropertyCodec()
    whole, dropped = retry_of(codec, came), retry_of(codec, came, leave_out=("k",))

    outcomes = publisher.publish(
        [message(classic_queue, raw=raw) for raw in (came, whole, dropped)], nothing
    )

    # It fitted as it came, does not with the headers of a retry, and the reason says what to do
    assert (outcomes[0], outcomes[2]) == (Confirmed(), Confirmed())
    assert isinstance(outcomes[1], Refused)
    assert "--drop-header" in outcomes[1].reason
