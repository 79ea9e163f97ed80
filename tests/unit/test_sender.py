"""Sending one message for a person: what is known afterwards, in bounded time."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from retrier.domain.failed_imports import ON_ITS_WAY, Doubtful, NotTaken, NotTried, Sent
from retrier.domain.wire import ChannelClosed, Confirmed, Outcome, Outgoing, Refused, Unknown
from retrier.errors import BrokerUnavailable
from retrier.transport.seam import Unsettled
from retrier.transport.sender import ANSWER_WITHIN, AT_ONCE, HAND_OVER_WITHIN, BrokerSender
from tests.support.frozen_clock import FrozenClock
from tests.support.scripted_transport import ScriptedTransport

MESSAGE = Outgoing(queue="orders", raw=b"\0\0", body=b"order 7")
DEADLINE = 10


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def transport() -> ScriptedTransport:
    made = ScriptedTransport()
    made.broker.declare("orders")
    return made


@pytest.fixture
def sender(transport: ScriptedTransport, clock: FrozenClock) -> BrokerSender:
    return BrokerSender(transport, clock)


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Confirmed(), Sent()),
        (Refused("full"), NotTaken("the broker refused it: full")),
        (ChannelClosed("406 no"), NotTaken("the broker refused it: 406 no")),
        (Refused("stored otherwise", may_have_arrived=True), Doubtful("stored otherwise")),
        (Unknown("reset"), Doubtful("reset")),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_the_broker_says_is_told(
    sender: BrokerSender, transport: ScriptedTransport, outcome: Outcome, expected: object
) -> None:
    transport.cue(outcome)

    with sender.connected() as line:
        assert line.send(MESSAGE) == expected


def test_a_queue_that_does_not_exist_is_named(sender: BrokerSender) -> None:
    nowhere = Outgoing(queue="nowhere", raw=b"\0\0", body=b"x")

    with sender.connected() as line:
        told = line.send(nowhere)

    assert isinstance(told, NotTaken)
    assert told.reason.startswith("the queue nowhere does not exist (")


def test_each_message_has_a_connection_that_is_closed_behind_it(
    sender: BrokerSender, transport: ScriptedTransport
) -> None:
    for _ in range(2):
        with sender.connected() as line:
            line.send(MESSAGE)

    assert transport.calls.count("transport.publisher") == 2
    assert transport.connected() == 0


def test_a_probe_that_nobody_gets_goes_ahead(
    sender: BrokerSender, transport: ScriptedTransport
) -> None:
    """A broker under an alarm is found out before anything is in doubt."""
    with sender.connected():
        assert "publisher.probe" in transport.calls

    assert transport.published == []
    assert set(transport.broker.queues) == {"orders"}


def test_a_broker_that_is_away_is_told_before_anything_is_stamped(
    sender: BrokerSender, transport: ScriptedTransport
) -> None:
    transport.go_down("connection refused")

    with pytest.raises(BrokerUnavailable, match="connection refused"), sender.connected():
        pytest.fail("connected")


def test_a_broker_under_an_alarm_takes_nothing_and_leaves_no_doubt(
    sender: BrokerSender, transport: ScriptedTransport, clock: FrozenClock
) -> None:
    transport.awaited = Unsettled(blocked=True)
    transport.before_call = lambda call: (
        clock.advance(ANSWER_WITHIN + 1) if call == "publisher.publish" else None
    )

    with pytest.raises(BrokerUnavailable, match="blocks publishers"), sender.connected():
        pytest.fail("connected")

    assert transport.connected() == 0


def test_a_connection_that_breaks_before_the_message_leaves_no_doubt(
    sender: BrokerSender, transport: ScriptedTransport
) -> None:
    with sender.connected() as line:
        transport.drop_connections("reset")

        assert line.send(MESSAGE) == NotTried("reset")


def test_what_is_handed_over_and_never_answered_is_in_doubt(
    sender: BrokerSender, transport: ScriptedTransport, clock: FrozenClock
) -> None:
    def wait_long(_message: Outgoing) -> bool:
        clock.advance(ANSWER_WITHIN + 1)
        return False

    transport.cue(Refused("never"), when=wait_long)

    with sender.connected() as line:
        told = line.send(MESSAGE)

    assert told == Doubtful("the broker took nothing for 20 s: it does not answer")


def test_what_a_frozen_process_would_hand_over_too_late_is_not_handed_over(
    sender: BrokerSender, transport: ScriptedTransport, clock: FrozenClock
) -> None:
    with sender.connected() as line:
        clock.advance(HAND_OVER_WITHIN + 1)

        told = line.send(MESSAGE)

    assert told == NotTried("this process stood still for 11 s before it")
    assert transport.published == []


def test_whoever_sends_gives_up_long_before_anybody_else_may_send() -> None:
    """A stamp is made after the connection, so what is handed over is so within this time of it."""
    assert ON_ITS_WAY.total_seconds() > HAND_OVER_WITHIN * 2


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(AT_ONCE + 1) as made:
        yield made


def test_so_many_send_at_once_and_no_more(sender: BrokerSender, pool: ThreadPoolExecutor) -> None:
    """Each holds a place of the API: a broker that answers nobody must not have all of them."""
    connected, go_on = threading.Barrier(AT_ONCE + 1), threading.Event()

    def hold() -> None:
        with sender.connected():
            connected.wait(DEADLINE)
            assert go_on.wait(DEADLINE)

    holding = [pool.submit(hold) for _ in range(AT_ONCE)]
    connected.wait(DEADLINE)

    with pytest.raises(BrokerUnavailable, match="others are sending"), sender.connected():
        pytest.fail("connected")
    go_on.set()
    for each in holding:
        each.result(DEADLINE)
    with sender.connected() as line:
        assert line.send(MESSAGE) == Sent()
