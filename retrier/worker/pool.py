"""The threads in which handlers run. Everything that talks to the broker is in another one."""

import os
from collections.abc import Callable
from logging import shutdown
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Protocol

from retrier.worker.condition import LOG
from retrier.worker.hand import Held
from retrier.worker.outcomes import Ended

CRASHED = 70
"""The exit code of a worker that ends itself: something has to start the next one."""

Work = Callable[[], Ended]
Finished = tuple[Held, Ended]


class Hands(Protocol):
    """What handles messages."""

    def start(self, held: Held, work: Work) -> None:
        """Have this done."""
        ...

    def fetch(self, timeout: float) -> Finished | None:
        """Return one that is finished; wait so many seconds for it."""
        ...

    def close(self) -> None:
        """Do no more."""
        ...


class Pool:
    """A fixed number of threads; what they have finished is fetched one by one."""

    def __init__(self, threads: int, end: Callable[[str], object]) -> None:
        """Start the threads. `end` ends the process, for a handler that runs out of memory."""
        self._tasks: SimpleQueue[tuple[Held, Work] | None] = SimpleQueue()
        self._finished: SimpleQueue[Finished] = SimpleQueue()
        self._end = end
        self._threads = threads
        for number in range(threads):
            # Daemons: a handler that does not end must not keep the process from ending.
            Thread(target=self._run, name=f"handler {number + 1}", daemon=True).start()

    def start(self, held: Held, work: Work) -> None:
        """Have this done by a thread."""
        self._tasks.put((held, work))

    def fetch(self, timeout: float) -> Finished | None:
        """Return one that is finished, or None if there is none within `timeout` seconds."""
        try:
            return self._finished.get(timeout=timeout) if timeout else self._finished.get_nowait()
        except Empty:
            return None

    def close(self) -> None:
        """Let each thread end when it is done with what it does."""
        for _ in range(self._threads):
            self._tasks.put(None)

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            held, work = task
            try:
                self._finished.put((held, work()))
            except MemoryError:
                self._end("the handler ran out of memory")
            # An idle thread must not keep its last message in memory.
            del task, held, work


def end_process(why: str) -> None:
    """End this process at once: what was not given back comes again, counted as a crash."""
    LOG.critical("this worker ends itself (exit code %s): %s", CRASHED, why)
    shutdown()
    os._exit(CRASHED)
