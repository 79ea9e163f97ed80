"""What goes on while the worker's own thread handles a message."""

from threading import Event, current_thread
from typing import Any

import pytest

from retrier.domain.wire import Delivery, Properties
from retrier.errors import BrokerUnavailable
from retrier.worker.hand import Held
from retrier.worker.handlers import make_handler
from retrier.worker.log import Condition
from retrier.worker.outcomes import Done
from retrier.worker.running import Exits, Inline, Relief
from tests.support.frozen_clock import FrozenClock


class FakeLine:
    """A line whose connection may be broken."""

    def __init__(self, error: BrokerUnavailable | None = None) -> None:
        self._error = error
        self.lost: BrokerUnavailable | None = None

    def keep_alive(self) -> None:
        if self._error is not None:
            raise self._error

    def lose(self, error: BrokerUnavailable) -> None:
        self.lost = error


STOP_TIMEOUT = 20.0


def relief_of(clock: FrozenClock, left: list[str], line: Any = None) -> Relief:
    exits = Exits(crash=left.append, leave=lambda: left.append("left"))
    relief = Relief(Condition(), exits, clock, stop_timeout=STOP_TIMEOUT)
    relief.let_go = lambda: left.append("let go")
    relief.line = line
    return relief


def test_a_handler_that_does_not_end_is_ended_with_its_process_after_the_order_to_stop() -> None:
    clock, left = FrozenClock(), list[str]()
    relief = relief_of(clock, left)

    relief.stop.set()
    relief.relieve()
    clock.advance(STOP_TIMEOUT)
    relief.relieve()
    assert left == []

    clock.advance(0.1)
    relief.relieve()
    assert left == ["let go", "left"]


def test_a_second_order_to_stop_gives_it_no_more_time() -> None:
    clock, left = FrozenClock(), list[str]()
    relief = relief_of(clock, left)

    relief.stop.set()
    relief.relieve()
    relief.farewell.hurry()
    clock.advance(0.1)
    relief.relieve()

    assert left == ["let go", "left"]


def test_without_that_order_it_may_take_its_time() -> None:
    clock, left = FrozenClock(), list[str]()
    relief = relief_of(clock, left)

    relief.relieve()
    clock.advance(3600)
    relief.relieve()

    assert left == []


def test_a_connection_that_breaks_meanwhile_is_not_used_afterwards() -> None:
    error = BrokerUnavailable("cut")
    line = FakeLine(error)

    relief_of(FrozenClock(), [], line).relieve()

    assert line.lost is error


HELD = Held(
    source=None,
    handler=make_handler("orders", lambda _: None, None),
    delivery=Delivery(tag=1, queue="orders", raw=b"", body=b"", redelivered=False),
    properties=Properties(headers={}, fields={}),
    crashes=0,
    retry_id=None,
)


def test_another_thread_stands_in_while_a_message_is_handled_and_only_then() -> None:
    relieved, threads = Event(), list[str]()

    def relieve() -> None:
        threads.append(current_thread().name)
        relieved.set()

    inline = Inline(lambda _: None, relieve)
    assert not relieved.wait(0.3)

    def work() -> Done:
        assert relieved.wait(5)
        return Done(current_thread().name.encode())

    inline.start(HELD, work)
    assert inline.fetch(0) == (HELD, Done(current_thread().name.encode()))
    inline.close()
    assert set(threads) == {"heartbeats"}
    assert inline.fetch(0) is None


def test_who_runs_out_of_memory_ends_the_process() -> None:
    ended: list[str] = []
    inline = Inline(ended.append, lambda: None)

    def work() -> Done:
        raise MemoryError

    inline.start(HELD, work)
    with pytest.raises(MemoryError):
        inline.fetch(0)
    inline.close()
    assert ended == ["the handler ran out of memory"]
