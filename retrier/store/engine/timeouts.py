"""A PostgreSQL connection that waits for an answer only so long, whatever holds it up."""

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
"""Seconds after which a wait is interrupted to look at the time."""


class TimedConnection(psycopg.Connection[Any]):
    """Gives up a server that does not answer for `patience` seconds; None: waits for ever.

    The server's own time-outs do not reach us over a line that is half open, and no kernel sees
    that it is: a proxy, or the system of a server that hangs, acknowledges every packet. The
    processor would wait for ever, and a request with it.
    """

    patience: float | None = None
    while_in_flight: WhileInFlight = staticmethod(nothing_else)
    """What there is to do while the server is at work."""

    def wait(
        self, gen: Generator[Any, Any, T], interval: float = _LOOK, timeout: float | None = None
    ) -> T:
        """Wait for one answer. Raises OperationalError, and closes the connection.

        Who listens for notifications sets a limit of its own, and nothing is owed to it.
        """
        if timeout is not None:
            # In one go: an idle service would wake up ten times a second for nothing.
            return super().wait(gen, max(interval, timeout), timeout)
        if self.patience is None:
            return super().wait(gen, interval)
        try:
            return super().wait(self._attend(gen, self.patience), interval)
        except _NoAnswer:
            # What comes now would be taken for the answer to the next question.
            self.close()
            raise

    def _attend(self, gen: Generator[Any, Any, T], seconds: float) -> Generator[Any, Any, T]:
        """Hand everything through, until nothing has come for too long.

        Before a wait that would take time, something else is done.
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
        while self.while_in_flight is not nothing_else and not _is_ready(self.pgconn, wanted):
            if not self.while_in_flight():
                self.while_in_flight = nothing_else


class _NoAnswer(psycopg.OperationalError):
    """The server said nothing for too long; what was asked may have been done or not."""


def _is_ready(pgconn: PGconn, wanted: int) -> bool:
    look = poll()
    look.register(pgconn.socket, POLLIN * bool(wanted & WAIT_R) | POLLOUT * bool(wanted & WAIT_W))
    return bool(look.poll(0))
