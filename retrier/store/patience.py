"""A PostgreSQL connection that waits for an answer only so long, whatever holds it up."""

from collections.abc import Generator
from time import monotonic
from typing import Any, TypeVar

import psycopg

T = TypeVar("T")

_LOOK = 0.1
"""Seconds after which a wait is interrupted to look at the time."""


class PatientConnection(psycopg.Connection[Any]):
    """Gives up a server that does not answer for `patience` seconds; None: waits for ever.

    The server's own time-outs do not reach us over a line that is half open, and no kernel sees
    that it is: a proxy, or the system of a server that hangs, acknowledges every packet. The
    processor would wait for ever, and a request with it.
    """

    patience: float | None = None

    def wait(
        self, gen: Generator[Any, Any, T], interval: float = _LOOK, timeout: float | None = None
    ) -> T:
        """Wait for one answer. Raises OperationalError, and closes the connection.

        Who listens for notifications sets a limit of its own, and nothing is owed to it.
        """
        if self.patience is None or timeout is not None:
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(_bound(gen, self.patience), interval)
        except _NoAnswer:
            # What comes now would be taken for the answer to the next question.
            self.close()
            raise


class _NoAnswer(psycopg.OperationalError):
    """The server said nothing for too long; what was asked may have been done or not."""


def _bound(gen: Generator[Any, Any, T], seconds: float) -> Generator[Any, Any, T]:
    """Hand everything through, until nothing has come for too long."""
    end = monotonic() + seconds
    ready = None
    while True:
        try:
            wanted = gen.send(ready)
        except StopIteration as done:
            answer: T = done.value
            return answer
        ready = yield wanted
        if ready:
            end = monotonic() + seconds
        elif monotonic() > end:
            raise _NoAnswer(f"no answer within {seconds:g} s")
