"""Looks whether queues exist: for a second, and never more threads than two."""

import threading
from collections.abc import Iterator

import pytest

from retrier.app.queue_looks import QueueLooks
from retrier.errors import BrokerUnavailable, QueueSilent
from retrier.http.parts import MissingQueues
from tests.support.frozen_clock import FrozenClock
from tests.support.scripted_connections import ScriptedQueues
from tests.support.scripted_transport import ScriptedTransport
from tests.support.waiting import wait_until

SHORT = 0.05
SLOW = "the broker did not answer within 1 s"


class OneIsSilent(ScriptedQueues):
    """Queues of which one does not answer; the connection outlives it, as RabbitMQ's does."""

    def exists(self, queue: str) -> bool:
        """Answer for all but `bills` (seam)."""
        if queue == "bills":
            raise QueueSilent(queue, "no answer")
        return super().exists(queue)


class HasASilentQueue(ScriptedTransport):
    """A broker with such queues."""

    def queues(self) -> ScriptedQueues:
        """Connect to look at queues (seam)."""
        return OneIsSilent(self)


@pytest.fixture
def transport() -> ScriptedTransport:
    """Give a broker with one queue."""
    made = ScriptedTransport()
    made.broker.declare("orders")
    return made


@pytest.fixture
def thawed(transport: ScriptedTransport) -> Iterator[threading.Event]:
    """Let the broker answer nobody until this is set."""
    event = threading.Event()

    def hang(name: str) -> None:
        if name == "transport.queues":
            event.wait(10)

    transport.before_call = hang
    yield event
    event.set()


def test_a_queue_that_is_missing_is_found(transport: ScriptedTransport) -> None:
    looks = QueueLooks(transport, FrozenClock())

    assert looks.look_at(["orders", "bills"]) == MissingQueues(missing=frozenset({"bills"}))


def test_the_connection_is_closed(transport: ScriptedTransport) -> None:
    QueueLooks(transport, FrozenClock()).look_at(["orders"])

    assert transport.calls[-1] == "queues.close"


def test_nothing_is_asked_where_there_is_nothing_to_ask(transport: ScriptedTransport) -> None:
    assert QueueLooks(transport, FrozenClock()).look_at([]) == MissingQueues()
    assert transport.calls == []


def test_any_number_of_queues_is_looked_at(transport: ScriptedTransport) -> None:
    names = [f"q{number:03}" for number in range(150)]

    found = QueueLooks(transport, FrozenClock()).look_at(names)

    assert found == MissingQueues(missing=frozenset(names))


def test_what_was_found_within_the_time_is_told(transport: ScriptedTransport) -> None:
    clock = FrozenClock()
    transport.after_call = lambda name: clock.advance(2) if name == "queues.exists" else None

    found = QueueLooks(transport, clock).look_at(["a", "b", "c"])

    assert found == MissingQueues(missing=frozenset({"a"}), why_not=SLOW, not_looked_at=(2, 3))


def test_a_broker_that_is_away_is_told(transport: ScriptedTransport) -> None:
    transport.fail("transport.queues", BrokerUnavailable("no route to 10.0.0.1"))

    found = QueueLooks(transport, FrozenClock()).look_at(["orders"])

    assert found == MissingQueues(why_not="the broker cannot be reached", not_looked_at=(1, 1))


def test_a_look_that_fails_costs_one_queue() -> None:
    transport = HasASilentQueue()
    transport.broker.declare("orders")

    found = QueueLooks(transport, FrozenClock()).look_at(["bills", "gone", "orders"])

    assert found == MissingQueues(
        missing=frozenset({"gone"}),
        unsure={"bills": "the queue does not answer, though the broker does"},
    )


def test_a_refusal_is_not_said_as_a_broker_that_is_away(transport: ScriptedTransport) -> None:
    transport.fail("queues.exists", BrokerUnavailable("refused: 403"))

    found = QueueLooks(transport, FrozenClock()).look_at(["orders"])

    assert found == MissingQueues(
        unsure={"orders": "the broker refused to say, or the connection broke"}
    )


def test_a_broker_that_hangs_is_not_waited_for(
    transport: ScriptedTransport, thawed: threading.Event
) -> None:
    looks = QueueLooks(transport, FrozenClock(), SHORT)

    assert looks.look_at(["orders"]) == MissingQueues(why_not=SLOW, not_looked_at=(1, 1))
    assert not thawed.is_set()


def test_a_broker_that_hangs_holds_two_threads_at_most(
    transport: ScriptedTransport, thawed: threading.Event
) -> None:
    looks = QueueLooks(transport, FrozenClock(), SHORT)
    for _ in range(2):
        looks.look_at(["orders"])

    third = looks.look_at(["orders"])
    thawed.set()

    assert third.why_not is not None
    assert "others are looking" in third.why_not
    wait_until(
        lambda: looks.look_at(["orders"]) == MissingQueues(), 30, "the places are free again"
    )
