"""What ends while something else is published: it is settled next, and holds up nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest

from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from retrier.worker import Worker
from retrier.worker.handlers import make_handler
from retrier.worker.loop import Loop
from retrier.worker.running import Exits
from tests.support.frozen_clock import FrozenClock
from tests.support.scripted_transport import ScriptedTransport
from tests.support.waiting import wait_until

DEADLINE = 15.0
MANY = 20_000
"""Times that a publish lets the worker look what has ended: it takes longer than a change of threads."""


@contextmanager
def running(loop: Loop) -> Iterator[None]:
    """Let the worker's loop run in a thread."""
    stop = Event()
    thread = Thread(target=loop.run, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(DEADLINE)


def test_what_ends_while_a_failure_is_published_is_published_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    transport = ScriptedTransport()
    transport.waits = MANY
    for queue in ("orders", "error"):
        transport.broker.declare(queue)
    for body in (b"1", b"2", b"3"):
        transport.broker.put("orders", AmqpPropertyCodec().empty, body)
    publishing = Event()

    def begin(call: str) -> None:
        if call == "publisher.publish":
            publishing.set()

    # Given two threads, of which one handles until the failure of the other is published
    def handle(body: bytes) -> None:
        if body == b"2":
            assert publishing.wait(DEADLINE)
        raise ValueError("broken")

    transport.before_call = begin
    worker = Worker("amqp://broker", error_queue="error", threads=2, prefetch=2)
    loop = Loop(
        worker.options,
        {"orders": make_handler("orders", handle, bytes)},
        transport,
        worker.condition,
        FrozenClock(),  # who rests, rests for ever
        Exits(crash=lambda _why: None),
    )

    # Then both are published, and a third one is taken
    with running(loop):
        wait_until(lambda: len(transport.broker.holds("error")) == 3, DEADLINE)
        assert "nothing is taken" not in caplog.text
