"""RabbitMQ behind a line that is cut, frozen or blocked: what is known afterwards, and what is not."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from time import monotonic
from urllib.parse import urlsplit

import pytest

from retrier.domain.wire import ChannelClosed, Confirmed, Outgoing, Unknown
from retrier.errors import BrokerUnavailable, LeaseLost
from retrier.transport.rabbitmq import RabbitMQTransport
from retrier.transport.rabbitmq.publisher import RUN, RabbitMQPublisher
from tests.contract.transport_fixtures import nothing
from tests.support.amqp_bytes import BLOCKED, NO_PROPERTIES, UNBLOCKED, properties
from tests.support.far_side import FarSide
from tests.support.receiving import receive
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import let_pass, wait_until

pytestmark = pytest.mark.rabbitmq

SOON = 4
"""Seconds: less than the silence after which it would not be sure in any case."""


def message(queue: str, body: bytes = b"x", raw: bytes = NO_PROPERTIES) -> Outgoing:
    return Outgoing(queue=queue, raw=raw, body=body)


def transport_at(url: str, heartbeat: float = 5) -> RabbitMQTransport:
    return RabbitMQTransport(url, connection_name="faults", heartbeat=heartbeat)


@pytest.fixture
def publisher(proxy: TcpProxy) -> Iterator[RabbitMQPublisher]:
    publisher = transport_at(proxy.url).publisher()
    yield publisher
    publisher.close()


def test_a_line_cut_while_confirms_are_outstanding_leaves_every_message_unknown(
    proxy: TcpProxy, publisher: RabbitMQPublisher, classic_queue: str
) -> None:
    proxy.freeze()

    outcomes = publisher.publish([message(classic_queue)] * 3, waiting=proxy.cut)

    assert [type(outcome) for outcome in outcomes] == [Unknown, Unknown, Unknown]


def test_a_line_cut_in_the_middle_of_a_window_leaves_the_rest_unknown(
    proxy: TcpProxy, publisher: RabbitMQPublisher, far_side: FarSide, classic_queue: str
) -> None:
    window = [message(classic_queue, bytes(100_000)) for _ in range(50)]
    proxy.cut_after(1_000_000)

    outcomes = publisher.publish(window, nothing)

    confirmed = outcomes.count(Confirmed())
    rest = outcomes[confirmed:]
    assert len(outcomes) == 50
    assert {type(outcome) for outcome in rest} == {Unknown}
    assert confirmed <= far_side.count(classic_queue) <= 10


def test_the_window_after_a_lost_one_goes_over_a_new_connection(
    proxy: TcpProxy, publisher: RabbitMQPublisher, classic_queue: str
) -> None:
    proxy.freeze()
    publisher.publish([message(classic_queue)], waiting=proxy.cut)

    outcomes = publisher.publish([message(classic_queue)], nothing)

    assert outcomes == (Confirmed(),)
    assert proxy.accepted == 2


def test_a_line_cut_between_windows_puts_nothing_in_doubt(
    proxy: TcpProxy, publisher: RabbitMQPublisher, classic_queue: str
) -> None:
    publisher.publish([message(classic_queue)], nothing)
    proxy.cut()

    assert publisher.publish([message(classic_queue)], nothing) == (Confirmed(),)


def test_a_line_that_lay_idle_is_replaced_before_it_is_trusted(
    proxy: TcpProxy, classic_queue: str
) -> None:
    publisher = transport_at(proxy.url, heartbeat=1).publisher()
    publisher.publish([message(classic_queue)], nothing)
    # Counted only now: on a slow machine the line may have lain idle before the first one, too.
    before = proxy.accepted
    idle_since = monotonic()
    wait_until(lambda: monotonic() > idle_since + 1.1, 5)

    outcomes = publisher.publish([message(classic_queue)], nothing)

    assert (outcomes, proxy.accepted) == ((Confirmed(),), before + 1)
    publisher.close()


@pytest.mark.waits
def test_a_line_that_is_kept_alive_is_trusted_after_many_heartbeats(
    proxy: TcpProxy, classic_queue: str
) -> None:
    publisher = transport_at(proxy.url, heartbeat=1).publisher()
    idle_since = monotonic()

    def kept_alive() -> bool:
        publisher.keep_alive()
        return monotonic() > idle_since + 4

    wait_until(kept_alive, 8)
    outcomes = publisher.publish([message(classic_queue)], nothing)

    assert (outcomes, proxy.accepted) == ((Confirmed(),), 1)
    publisher.close()


def test_a_consumer_that_rested_too_long_is_not_asked_to_resume(
    proxy: TcpProxy, classic_queue: str
) -> None:
    consumer = transport_at(proxy.url, heartbeat=1).consumer(classic_queue, 10)
    assert consumer.rest()
    # Nobody would answer, which takes a time-out to find out.
    proxy.freeze()
    let_pass(1.1)

    with pytest.raises(BrokerUnavailable, match="rested"):
        consumer.resume(10)
    consumer.close()


def test_no_broker_between_windows_is_told_before_anything_is_sent(
    amqp_url: str, classic_queue: str
) -> None:
    with TcpProxy(amqp_url) as proxy:
        publisher = transport_at(proxy.url).publisher()

    with pytest.raises(BrokerUnavailable):
        publisher.publish([message(classic_queue)], nothing)


def test_a_frozen_broker_is_given_up_by_its_heartbeats(proxy: TcpProxy, classic_queue: str) -> None:
    publisher = transport_at(proxy.url, heartbeat=1).publisher()

    def frozen_before_the_first() -> Iterator[Outgoing]:
        # Not sooner: the publisher would replace a line that has lain idle, and reach nobody.
        proxy.freeze()
        yield message(classic_queue)

    (outcome,) = publisher.publish(frozen_before_the_first(), nothing)

    assert isinstance(outcome, Unknown)
    assert "heartbeats" in outcome.reason


@pytest.mark.waits
def test_calls_waiting_while_it_waits_at_least_once_a_second(
    proxy: TcpProxy, publisher: RabbitMQPublisher, classic_queue: str
) -> None:
    proxy.freeze()
    calls = [monotonic()]

    def waiting() -> None:
        calls.append(monotonic())
        if len(calls) == 5:
            proxy.cut()

    publisher.publish([message(classic_queue)], waiting)

    assert all(later - sooner <= 1 for sooner, later in pairwise(calls))


def test_what_waiting_raises_goes_through_and_its_confirms_disturb_nobody(
    proxy: TcpProxy, publisher: RabbitMQPublisher, classic_queue: str
) -> None:
    def lose_the_lease() -> None:
        raise LeaseLost

    proxy.freeze()
    with pytest.raises(LeaseLost):
        publisher.publish([message(classic_queue)], lose_the_lease)
    proxy.cut()

    assert publisher.publish([message(classic_queue)], nothing) == (Confirmed(),)


def test_a_blocked_broker_is_waited_for_and_gets_no_second_run_of_messages(
    proxy: TcpProxy, publisher: RabbitMQPublisher, classic_queue: str
) -> None:
    proxy.hold()
    proxy.say(BLOCKED)
    written: list[bytes] = []

    def waiting() -> None:
        if len(written) == 4:  # it goes on being called while the confirms are under way
            return
        wait_until(lambda: b"first" in proxy.held, 5, "the proxy has read what was written")
        written.append(bytes(proxy.held))
        if len(written) == 4:
            proxy.say(UNBLOCKED)
            proxy.release()

    first = message(classic_queue, b"first".ljust(RUN))
    outcomes = publisher.publish([first, message(classic_queue, b"second")], waiting)

    assert outcomes == (Confirmed(), Confirmed())
    assert len(written) == 4
    assert all(b"first" in seen and b"second" not in seen for seen in written)


def test_a_broker_that_blocks_the_probe_gets_nothing_that_matters(
    proxy: TcpProxy, classic_queue: str, queue_name: Callable[..., str], far_side: FarSide
) -> None:
    staging = far_side.declare(queue_name("staging"))
    publisher = transport_at(proxy.url).publisher(message(staging, b"probe"))
    proxy.hold()
    proxy.say(BLOCKED)
    written: list[bytes] = []

    def waiting() -> None:
        if written:  # it goes on being called while the confirms are under way
            return
        wait_until(lambda: b"probe" in proxy.held, 5, "the proxy has read what was written")
        written.append(bytes(proxy.held))
        proxy.say(UNBLOCKED)
        proxy.release()

    outcomes = publisher.publish([message(classic_queue, b"matters")], waiting)

    assert outcomes == (Confirmed(),)
    assert b"probe" in written[0]
    assert b"matters" not in written[0]
    publisher.close()


def test_a_line_cut_during_the_probe_puts_nothing_in_doubt(
    proxy: TcpProxy, classic_queue: str, far_side: FarSide
) -> None:
    publisher = transport_at(proxy.url).publisher(message(classic_queue, b"probe"))
    proxy.freeze()

    with pytest.raises(BrokerUnavailable, match="cannot reach the broker"):
        publisher.publish([message(classic_queue)], waiting=proxy.cut)

    assert far_side.count(classic_queue) == 0


def test_a_blocked_line_that_is_cut_leaves_the_window_unknown(
    proxy: TcpProxy, publisher: RabbitMQPublisher, classic_queue: str
) -> None:
    proxy.hold()
    proxy.say(BLOCKED)

    outcomes = publisher.publish([message(classic_queue)] * 2, waiting=proxy.cut)

    assert [type(outcome) for outcome in outcomes] == [Unknown, Unknown]


LARGE = bytes(30_000_000)
"""More than all buffers between us and the broker hold."""


def test_calls_waiting_while_the_broker_does_not_take_a_large_body(
    proxy: TcpProxy, publisher: RabbitMQPublisher, classic_queue: str
) -> None:
    proxy.freeze()

    outcomes = publisher.publish([message(classic_queue, LARGE)] * 2, waiting=proxy.cut)

    assert [type(outcome) for outcome in outcomes] == [Unknown, Unknown]


def test_what_waiting_raises_in_the_middle_of_a_large_body_goes_through(
    proxy: TcpProxy, publisher: RabbitMQPublisher, classic_queue: str
) -> None:
    def say_that_another_line_broke() -> None:
        raise BrokerUnavailable("another line")

    proxy.freeze()
    with pytest.raises(BrokerUnavailable, match="another line"):
        publisher.publish([message(classic_queue, LARGE)], say_that_another_line_broke)
    proxy.cut()

    assert publisher.publish([message(classic_queue)], nothing) == (Confirmed(),)


def test_a_message_the_broker_closes_the_channel_for_takes_the_window_with_it(
    publisher: RabbitMQPublisher, classic_queue: str
) -> None:
    poison = message(classic_queue, raw=properties(user_id="somebody-else"))
    window = [message(classic_queue), poison, *[message(classic_queue)] * 20]

    outcomes = publisher.publish(window, nothing)

    closed = [outcome for outcome in outcomes if isinstance(outcome, ChannelClosed)]
    assert outcomes[1] in closed
    assert set(outcomes) - set(closed) <= {Confirmed()}
    assert "406 PRECONDITION_FAILED" in closed[0].reason
    assert "user_id" in closed[0].reason


def test_works_after_a_closed_channel(publisher: RabbitMQPublisher, classic_queue: str) -> None:
    poison = message(classic_queue, raw=properties(expiration="soon"))
    publisher.publish([poison], nothing)

    outcomes = publisher.publish([message(classic_queue)] * 2, nothing)

    assert outcomes == (Confirmed(), Confirmed())


def test_a_consumer_whose_line_is_cut_says_so_from_then_on(
    proxy: TcpProxy, far_side: FarSide, classic_queue: str
) -> None:
    far_side.publish(classic_queue, 2)
    consumer = transport_at(proxy.url).consumer(classic_queue, 10)
    received = receive(consumer, 2)
    proxy.cut()

    with pytest.raises(BrokerUnavailable):
        consumer.receive(1, 5)
    with pytest.raises(BrokerUnavailable):
        consumer.ack(received)


def test_a_consumer_whose_connection_was_ended_knows_it_though_there_is_more_to_read(
    proxy: TcpProxy, far_side: FarSide, classic_queue: str
) -> None:
    far_side.publish(classic_queue, 5)
    consumer = transport_at(proxy.url).consumer(classic_queue, 5)
    receive(consumer, 1)
    assert consumer.surely_holds()

    proxy.cut()

    wait_until(lambda: not consumer.surely_holds(), SOON)
    consumer.close()


def test_a_consumer_of_a_frozen_broker_gives_up_by_its_heartbeats(
    proxy: TcpProxy, classic_queue: str
) -> None:
    consumer = transport_at(proxy.url, heartbeat=1).consumer(classic_queue, 10)
    proxy.freeze()

    with pytest.raises(BrokerUnavailable, match="heartbeats"):
        consumer.receive(1, 10)


@pytest.mark.waits
def test_closing_does_not_wait_for_a_frozen_broker(proxy: TcpProxy, classic_queue: str) -> None:
    transport = transport_at(proxy.url)
    opened = [transport.publisher(), transport.consumer(classic_queue, 1), transport.queues()]
    proxy.freeze()
    start = monotonic()

    for each in opened:
        each.close()

    assert monotonic() - start < 3


def test_queues_that_were_not_looked_at_for_long_are_looked_at_anew(
    proxy: TcpProxy, classic_queue: str
) -> None:
    queues = transport_at(proxy.url).queues()
    proxy.cut()

    assert queues.depth(classic_queue) == 0
    queues.close()


def test_nobody_at_the_address_is_told_with_the_address(queue_name: Callable[..., str]) -> None:
    transport = transport_at("amqp://guest:secret@127.0.0.1:1//")

    with pytest.raises(BrokerUnavailable) as told:
        transport.consumer(queue_name(), 1)

    assert str(told.value) == "cannot reach the broker at 127.0.0.1:1: Connection refused"


def test_a_wrong_password_is_told_and_not_shown(amqp_url: str) -> None:
    parts = urlsplit(amqp_url)
    url = f"amqp://guest:s3cret@{parts.hostname}:{parts.port or 5672}{parts.path}"

    with pytest.raises(BrokerUnavailable, match="403 ACCESS_REFUSED") as told:
        transport_at(url).publisher()

    assert "s3cret" not in str(told.value)


def test_a_broker_that_does_not_answer_is_not_waited_for_for_ever(proxy: TcpProxy) -> None:
    proxy.freeze()

    with pytest.raises(BrokerUnavailable, match="timed out"):
        transport_at(proxy.url).queues()
