"""A PostgreSQL connection that limits how long it waits for any answer."""

from collections.abc import Generator
from select import POLLIN, POLLOUT, poll
from time import monotonic
from typing import Any, TypeVar

import psycopg
from psycopg.pq.abc import PGconn
from psycopg.waiting import WAIT_R, WAIT_W

from retrier.overlap import WhileInFlight, nothing_else

T = TypeVar("T")

_LOOK = 0.1
"""Seconds between two looks at the clock during a wait."""


class TimedConnection(psycopg.Connection[Any]):
    """Gives up a server that does not answer for `answer_timeout` seconds; None: waits for ever.

    On a half-open connection the server's time-outs do not reach us. TCP does not notice either:
    a proxy, or the kernel of a hanging server, acknowledges every packet. The processor and API
    requests would wait for ever.
    """

    answer_timeout: float | None = None
    is_pooled: bool = False
    """Whether a pooler stands before the server: its next transaction may have another session."""
    while_in_flight: WhileInFlight = staticmethod(nothing_else)
    """Called while the server works and has not answered yet."""

    def wait(
        self, gen: Generator[Any, Any, T], interval: float = _LOOK, timeout: float | None = None
    ) -> T:
        """Wait for one answer. Without one, closes the connection and raises OperationalError.

        LISTEN waits with a `timeout` of its own. No answer is due there, so none is missing.
        """
        if timeout is not None:
            # One wait for the whole time: an idle service must not wake up ten times a second.
            return super().wait(gen, max(interval, timeout), timeout)
        if self.answer_timeout is None:
            return super().wait(gen, interval)
        try:
            return super().wait(self._attend(gen, self.answer_timeout), interval)
        except _NoAnswer:
            # A late answer would be taken for the answer to the next statement.
            self.close()
            raise

    def _attend(self, gen: Generator[Any, Any, T], seconds: float) -> Generator[Any, Any, T]:
        """Pass everything on to `gen`; raise _NoAnswer when nothing arrived for `seconds`.

        Before a wait that would take time, `while_in_flight` is called.
        """
        end = monotonic() + seconds
        ready = None
        while True:
            try:
                wanted = gen.send(ready)
            except StopIteration as done:
                answer: T = done.value
                return answer
            self._use_time(wanted)
            ready = yield wanted
            if ready:
                end = monotonic() + seconds
            elif monotonic() > end:
                raise _NoAnswer(f"no answer within {seconds:g} s")

    def _use_time(self, wanted: int) -> None:
        if self.while_in_flight is nothing_else:
            return
        look = _watch(self.pgconn, wanted)
        while not look.poll(0):
            if not self.while_in_flight():
                self.while_in_flight = nothing_else
                return


class _NoAnswer(psycopg.OperationalError):
    """The server did not answer in time; the statement may or may not have been executed."""


def _watch(pgconn: PGconn, wanted: int) -> poll:
    """Return what says whether the socket is ready; made once, for it is asked very often."""
    look = poll()
    look.register(pgconn.socket, POLLIN * bool(wanted & WAIT_R) | POLLOUT * bool(wanted & WAIT_W))
    return look
