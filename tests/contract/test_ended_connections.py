"""Every publisher of ours, and every way in which a broker ends a connection or says no.

Each way is taken before the first of two publications, between them, and during the second. What is
said to be published is at the broker; the next publication succeeds once the broker is well.
"""

import gc
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from threading import Timer
from time import monotonic
from typing import Protocol
from uuid import uuid4

import pika
import pytest
from celery import Celery

from retrier.clock import SystemClock
from retrier.domain.failed_imports import Sent
from retrier.domain.wire import Confirmed, Outgoing
from retrier.errors import BrokerUnavailable
from retrier.integrations import celery as celery_publisher
from retrier.integrations.dramatiq import publisher as dramatiq_publisher
from retrier.integrations.dramatiq.letters import Letter
from retrier.store.engine.database import Database
from retrier.transport.embedded import EmbeddedTransport
from retrier.transport.rabbitmq import RabbitMQTransport
from retrier.transport.sender import BrokerSender, Overdue
from retrier.worker.connections import Connections
from tests.conftest import opened_empty
from tests.support.amqp_bytes import NO_PROPERTIES
from tests.support.amqp_peer import (
    AmqpPeer,
    Fault,
    Refusal,
    close_channel,
    close_connection,
    connection_close,
    is_denied,
    is_full,
    is_missing,
    reset,
    vanish,
)
from tests.support.databases import empty
from tests.support.dramatiq_site import vars_of
from tests.support.far_side import FarSide
from tests.support.outbox import Outbox
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import wait_until

QUEUE = f"test.error.{uuid4().hex[:12]}"
WORK = f"{QUEUE}.work"
PATIENCE = 0.4
"""Seconds that each of them waits for an answer here; outside it is longer."""
DEADLINE = 8.0

Publish = Callable[[bytes], str | None]
"""Publishes a message with this body; returns why it is not published, None if it is."""

ENDS: Mapping[str, Fault] = {
    **{f"connection {code}": close_connection(code) for code in (320, 501, 530, 541)},
    **{f"channel {code}": close_channel(code) for code in (403, 404, 406)},
    "reset": reset,
    "half-open": vanish,
}
REFUSALS: Mapping[str, Refusal] = {"gone": is_missing, "denied": is_denied, "full": is_full}


class Broker(Protocol):
    """Where to publish."""

    @property
    def url(self) -> str: ...


@contextmanager
def celery(peer: Broker, _database: Database) -> Iterator[Publish]:
    app = Celery("shop", broker=peer.url, set_as_current=False)
    publisher = celery_publisher.Publisher(app, timeout=PATIENCE)

    def publish(body: bytes) -> str | None:
        made = celery_publisher.Publication(queue=QUEUE, headers={}, shorter={}, body=body)
        try:
            publisher.publish(made)
        except Exception as error:  # noqa: BLE001 - Kombu's list of errors differs
            return celery_publisher.describe(error)
        return None

    yield publish
    publisher.close()


@contextmanager
def dramatiq(peer: Broker, _database: Database) -> Iterator[Publish]:
    parameters = pika.ConnectionParameters(**vars_of(peer.url))
    publisher = dramatiq_publisher.Publisher(parameters, PATIENCE)

    def publish(body: bytes) -> str | None:
        none = pika.BasicProperties()
        try:
            publisher.publish(Letter(queue=QUEUE, properties=none, shorter=none, body=body))
        except dramatiq_publisher.NotPublished as error:
            return str(error)
        return None

    yield publish


def transport_to(peer: Broker) -> RabbitMQTransport:
    return RabbitMQTransport(peer.url, connection_name="ended", heartbeat=1)


def patiently() -> Callable[[], None]:
    end = monotonic() + PATIENCE

    def wait() -> None:
        if monotonic() > end:
            raise Overdue("no answer")

    return wait


def message(body: bytes) -> Outgoing:
    return Outgoing(queue=QUEUE, raw=NO_PROPERTIES, body=body)


@contextmanager
def processor(peer: Broker, _database: Database) -> Iterator[Publish]:
    """Stage and forward: one publisher with a probe, and one for all that comes."""
    probe = Outgoing(queue="", raw=NO_PROPERTIES, body=b"probe")
    with closing(transport_to(peer).publisher(probe)) as publisher:

        def publish(body: bytes) -> str | None:
            try:
                (outcome,) = publisher.publish([message(body)], patiently())
            except (BrokerUnavailable, Overdue) as error:
                return str(error)
            return None if isinstance(outcome, Confirmed) else outcome.reason

        yield publish


@contextmanager
def worker(peer: Broker, _database: Database) -> Iterator[Publish]:
    """Publish as a worker does: a line that broke is closed, and the next message has a new one."""
    lines: list[Connections] = []

    def publish(body: bytes) -> str | None:
        try:
            if not lines:
                lines.append(Connections(transport_to(peer), [WORK], 1))
            (outcome,) = lines[0].publish([message(body)], patiently())
        except (BrokerUnavailable, Overdue) as error:
            for line in lines:
                line.close()
            lines.clear()
            return str(error)
        return None if isinstance(outcome, Confirmed) else outcome.reason

    yield publish
    for line in lines:
        line.close()


@contextmanager
def person(peer: Broker, _database: Database) -> Iterator[Publish]:
    """Send what a person asks for: a connection for each message."""
    sender = BrokerSender(transport_to(peer), SystemClock())

    def publish(body: bytes) -> str | None:
        try:
            with sender.connected() as line:
                outcome = line.send(message(body))
        except BrokerUnavailable as error:
            return str(error)
        return None if isinstance(outcome, Sent) else outcome.reason

    yield publish


@contextmanager
def outgoing(peer: Broker, database: Database) -> Iterator[Publish]:
    """Send notices and copies for the log queue: what is not confirmed stays in its table."""
    empty(database)
    outbox = Outbox(database, transport=transport_to(peer))

    def publish(body: bytes) -> str | None:
        outbox.fail(queue=QUEUE, body=body, message_id=str(uuid4()))
        outbox.end_waits()
        outbox.clock.advance(60)
        pause = outbox.turn()
        return f"{len(outbox.rows())} wait for {pause} s" if outbox.rows() else None

    yield publish
    outbox.sender._drop()  # noqa: SLF001 - its loop would do so


Publisher = Callable[[Broker, Database], AbstractContextManager[Publish]]
PUBLISHERS: Mapping[str, Publisher] = {
    each.__name__: each for each in (celery, dramatiq, processor, worker, person, outgoing)
}


@pytest.fixture
def sqlite(request: pytest.FixtureRequest) -> Iterator[Database]:
    with opened_empty("sqlite", request) as db:
        yield db


@pytest.fixture(params=PUBLISHERS)
def publisher(request: pytest.FixtureRequest) -> Publisher:
    return PUBLISHERS[request.param]


def go_through(publisher: Publisher, database: Database, moment: str, end: Fault) -> str:
    """Publish two messages, with this end at this moment; return what is wrong, "" for nothing."""
    with AmqpPeer() as peer, publisher(peer, database) as publish:
        said: dict[bytes, str | None] = {}
        if moment == "before":
            peer.before(end)
        said[b"first"] = publish(b"first")
        if moment == "between":
            peer.between(end)
        if moment == "during":
            peer.during(end)
        said[b"second"] = publish(b"second")
        if moment != "before" and said[b"first"] is not None:
            return f"the first was not published: {said[b'first']}"
        lost = [body for body, why in said.items() if why is None and body not in peer.stored]
        if lost:
            return f"said to be published, and lost: {lost}"
        try:
            wait_until(lambda: publish(b"next") is None, DEADLINE)
        except AssertionError:
            return f"nothing is published any more: {publish(b'next')}"
        return "" if b"next" in peer.stored else "the next is lost"


NOT_OURS = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
"""Dramatiq's pika leaves the two sockets with which it wakes itself if a connection is not opened."""


@pytest.fixture
def swept() -> Iterator[None]:
    """Let those sockets go here, where they are known, and not in a later test."""
    yield
    gc.collect()


SOME = ("connection 320", "channel 404", "reset")
"""Enough where the same code publishes as for the processor, on a database that takes its time."""


@NOT_OURS
@pytest.mark.usefixtures("swept")
@pytest.mark.parametrize("moment", ["before", "between", "during"])
def test_no_end_of_a_connection_loses_a_message_in_silence(
    publisher: Publisher, sqlite: Database, moment: str
) -> None:
    ends = {name: ENDS[name] for name in SOME} if publisher is outgoing else ENDS

    wrong = {name: go_through(publisher, sqlite, moment, end) for name, end in ends.items()}

    assert not any(wrong.values()), {name: told for name, told in wrong.items() if told}


def test_a_queue_that_takes_nothing_is_said_and_the_next_message_arrives(
    publisher: Publisher, sqlite: Database
) -> None:
    for name, refusal in REFUSALS.items():
        with AmqpPeer() as peer, publisher(peer, sqlite) as publish:
            peer.refusals[QUEUE] = refusal
            assert publish(b"first") is not None, name
            del peer.refusals[QUEUE]

            wait_until(lambda: publish(b"next") is None, DEADLINE, name)

            assert b"next" in peer.stored


def test_a_broker_that_blocks_publishers_is_waited_for_or_said(
    publisher: Publisher, sqlite: Database
) -> None:
    with AmqpPeer() as peer, publisher(peer, sqlite) as publish:
        publish(b"first")
        peer.block()
        end_of_the_alarm = Timer(PATIENCE / 2, peer.unblock)
        end_of_the_alarm.start()

        why = publish(b"second")

        end_of_the_alarm.join()
        assert why is not None or b"second" in peer.stored
        wait_until(lambda: publish(b"next") is None, DEADLINE)


@pytest.mark.parametrize("make", [celery, dramatiq])
def test_what_is_tried_again_during_an_alarm_does_not_pile_up(
    make: Publisher, sqlite: Database
) -> None:
    with AmqpPeer() as peer, make(peer, sqlite) as publish:
        publish(b"first")
        peer.block()
        assert all([publish(b"again") for _ in range(4)])  # noqa: C419 - each of them
        peer.unblock()

        wait_until(lambda: publish(b"next") is None, DEADLINE)

        assert peer.stored.count(b"again") <= 1


LONG = {"x": "y" * 140_000}
"""Fits into no frame."""


def test_headers_of_a_celery_task_that_fit_into_no_frame_go_in_short_and_the_next_as_usual() -> (
    None
):
    with AmqpPeer() as peer:
        publisher = celery_publisher.Publisher(Celery(broker=peer.url, set_as_current=False))
        make = partial(celery_publisher.Publication, queue=QUEUE, shorter={})

        publisher.publish(make(headers=LONG, body=b"long"))
        publisher.publish(make(headers={}, body=b"next"))

        assert peer.stored == [b"long", b"next"]
        publisher.close()


def test_headers_of_a_dramatiq_task_that_fit_into_no_frame_go_in_short_and_the_next_as_usual() -> (
    None
):
    with AmqpPeer() as peer:
        publisher = dramatiq_publisher.Publisher(pika.ConnectionParameters(**vars_of(peer.url)))
        make = partial(Letter, queue=QUEUE, shorter=pika.BasicProperties())

        publisher.publish(make(properties=pika.BasicProperties(headers=LONG), body=b"long"))
        publisher.publish(make(properties=pika.BasicProperties(), body=b"next"))

        assert peer.stored == [b"long", b"next"]


def say_close(code: int) -> Callable[[TcpProxy], None]:
    def close(proxy: TcpProxy) -> None:
        proxy.say(connection_close(code))
        proxy.cut()

    return close


def half_open(proxy: TcpProxy) -> None:
    proxy.half_open()


def cut(proxy: TcpProxy) -> None:
    proxy.cut()


REAL_ENDS: Mapping[str, Callable[[TcpProxy], None]] = {
    **{f"connection {code}": say_close(code) for code in (320, 501, 530, 541)},
    "cut": cut,
    "half-open": half_open,
}


@NOT_OURS
@pytest.mark.usefixtures("swept")
@pytest.mark.faults
@pytest.mark.rabbitmq
@pytest.mark.parametrize("moment", ["between", "during"])
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_no_end_of_a_connection_to_rabbitmq_loses_a_message_in_silence(
    publisher: Publisher, sqlite: Database, amqp_url: str, kind: str, moment: str
) -> None:
    """The same beside a real broker, whose part is taken by what stands in between."""
    with closing(FarSide(amqp_url)) as far:
        for name, end in REAL_ENDS.items():
            far.channel.queue_delete(QUEUE)
            for queue in (QUEUE, WORK):
                far.declare(queue, x_queue_type=kind)
            with TcpProxy(amqp_url) as proxy, publisher(proxy, sqlite) as publish:
                assert publish(b"first") is None, name
                if moment == "between":
                    end(proxy)
                else:
                    proxy.hold()
                    Timer(PATIENCE / 4, lambda: end(proxy)).start()  # noqa: B023 - ends before
                said = publish(b"second")
                proxy.stop_holding()

                wait_until(lambda: publish(b"next") is None, DEADLINE, name)

            assert far.count(QUEUE) >= (3 if said is None else 2), name
        for queue in (QUEUE, WORK):
            far.channel.queue_delete(queue)


def test_a_file_that_others_hold_loses_no_message_in_silence(tmp_path: Path) -> None:
    """The embedded broker has no connection to end: what fails is its file."""
    path = tmp_path / "broker.db"
    transport = EmbeddedTransport(f"embedded:///{path}", busy_timeout=PATIENCE)
    made = [Outgoing(queue=QUEUE, raw=transport.codec.empty, body=b"x")]
    with closing(transport.queues()) as queues, closing(transport.publisher()) as publisher:
        queues.declare_error_queue(QUEUE)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(BrokerUnavailable):
                publisher.publish(made, patiently())
            other.execute("ROLLBACK")

        assert publisher.publish(made, patiently()) == (Confirmed(),)

        assert queues.depth(QUEUE) == 1
