"""A worker with one thread handles its messages in the thread that talks to the broker.

Handing each message to another thread and back costs more than the message itself where the machine
is busy. While a handler runs, a second thread sends the heartbeats; a lock says whose turn it is.
"""

from collections.abc import Callable
from threading import Event, Lock, Thread

from retrier.worker.hand import Held
from retrier.worker.pool import Finished, Work

TURN = 0.1
"""Seconds between two looks of the second thread."""


class Inline:
    """Takes the place of the pool. `fetch` runs the handler."""

    def __init__(self, end: Callable[[str], object], relieve: Callable[[], object]) -> None:
        """`relieve` is called again and again while a handler runs. Made by the loop's thread."""
        self._end = end
        self._relieve = relieve
        self._task: tuple[Held, Work] | None = None
        self._turn = Lock()
        self._turn.acquire()
        self._closed = Event()
        Thread(target=self._stand_in, name="heartbeats", daemon=True).start()

    def start(self, held: Held, work: Work) -> None:
        """Have this done by the next `fetch`."""
        self._task = held, work

    def fetch(self, timeout: float) -> Finished | None:  # noqa: ARG002 - it takes as long as it takes
        """Do what is to be done, and return it; None if there is nothing."""
        if self._task is None:
            return None
        (held, work), self._task = self._task, None
        self._turn.release()
        try:
            ended = work()
        except MemoryError:
            self._end("the handler ran out of memory")
            raise
        finally:
            self._turn.acquire()
        return held, ended

    def close(self) -> None:
        """Let the second thread end."""
        self._closed.set()

    def _stand_in(self) -> None:
        while not self._closed.wait(TURN):
            if self._turn.acquire(blocking=False):
                try:
                    self._relieve()
                finally:
                    self._turn.release()
