"""Handlers at work, what goes on meanwhile, and how a worker ends.

Handing each message to another thread and back costs more than the message itself where the machine
is busy. So a worker with one thread handles its messages in the thread that talks to the broker.
While a handler runs, a second thread sends the heartbeats; a lock says whose turn it is.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from logging import shutdown
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import Protocol

from retrier.clock import Clock
from retrier.errors import BrokerUnavailable
from retrier.worker.connections import Connections
from retrier.worker.copies import find_id
from retrier.worker.hand import Hand, Held
from retrier.worker.handlers import Message
from retrier.worker.log import LOG, Condition
from retrier.worker.options import Options
from retrier.worker.outcomes import Broken, Done, Ended, SecondCopy
from retrier.worker.seen import SecondCopies
from retrier.worker.starts import Starts

RELEASE_WITHIN = 5.0
"""Seconds that the broker has to take back what was not finished; then the process ends anyway."""


class StopOverdue(Exception):
    """The worker was told to stop, and the broker takes too long."""


class Farewell:
    """The time in which what was begun may be finished."""

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._seconds = seconds
        self._clock = clock
        self._until: float | None = None
        self._hurried: float | None = None

    def begin(self) -> None:
        """Note that the worker was told to stop."""
        if self._until is None:
            self._until = self._clock.monotonic() + self._seconds

    def hurry(self) -> None:
        """Note that it was told so again: handlers have no more time."""
        self._hurried = self._clock.monotonic()

    @property
    def begun(self) -> bool:
        """Whether it was told to stop."""
        return self._until is not None

    @property
    def overdue(self) -> bool:
        """Whether the time is over."""
        return self._is_over(0)

    @property
    def expired(self) -> bool:
        """Whether the time is over in which the broker could take back what was not finished."""
        return self._is_over(RELEASE_WITHIN)

    def _is_over(self, seconds_ago: float) -> bool:
        if self._until is None:
            return False
        until = self._until if self._hurried is None else min(self._until, self._hurried)
        return self._clock.monotonic() > until + seconds_ago


@dataclass(frozen=True, slots=True, kw_only=True)
class Exits:
    """How the process is ended: as after a crash, or well.

    `leave` is None if the process is not only a worker: then it is not ended.
    """

    crash: Callable[[str], object]
    leave: Callable[[], object] | None = None


class Relief:
    """Heartbeats, deadlines, and the end after an order to stop."""

    def __init__(
        self, condition: Condition, exits: Exits, clock: Clock, *, stop_timeout: float
    ) -> None:
        self._condition = condition
        self._exits = exits
        self.farewell = Farewell(stop_timeout, clock)
        self.line: Connections | None = None
        self.stop = Event()
        self.check_deadlines: Callable[[], object] = lambda: None
        self.let_go: Callable[[], object] = lambda: None
        """Gives everything in hand back to the broker."""

    def relieve(self) -> None:
        """Keep up. Called by another thread, while the worker's own one handles a message."""
        line = self.line
        try:
            if line is not None:
                line.keep_alive()
        except BrokerUnavailable as error:
            self._condition.wait_for(str(error))
            if line is not None:
                line.lose(error)
        self.check_deadlines()
        if self.stop.is_set():
            self.farewell.begin()
        if self.farewell.overdue and self._exits.leave is not None:
            try:
                self.let_go()
            finally:
                self._exits.leave()


CRASHED = 70
"""The exit code of a worker that ends itself: something has to start the next one."""
TURN = 0.1
"""Seconds between two looks of the thread that sends heartbeats."""

Work = Callable[[], Ended]
Finished = tuple[Held, Ended]
ResultOf = Callable[[Held, Done], bytes]


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


class Handling:
    """Starts handlers, and says what became of their messages. Used by one thread."""

    def __init__(
        self, options: Options, hands: Hands, hand: Hand, starts: Starts, clock: Clock
    ) -> None:
        self._options = options
        self._clock = clock
        self._hands = hands
        self._hand = hand
        self._starts = starts
        self._retries = SecondCopies(options.seen, clock)
        self._never = Event()

    def start(self, several: Sequence[Held]) -> list[tuple[Held, SecondCopy]]:
        """Start these; return those that were handled before, and are not started."""
        now = self._clock.monotonic()
        copies = []
        for held in several:
            copy = self._retries.begin(held)
            if copy is not None:
                self._hand.put_back(held)
                copies.append((held, copy))
            elif held.not_before <= now:
                self._hand.start(held, now)
                self._hands.start(held, partial(self._handle, held))
        self._retries.keep(self._hand.running)
        return copies

    def fetch(self, timeout: float, result_of: ResultOf) -> list[Finished]:
        """Return what is finished; wait so long for the first one."""
        found: list[Finished] = []
        if timeout and not self._hand.running:
            self._never.wait(timeout)
        finished = self._hands.fetch(timeout if self._hand.running else 0)
        while finished is not None:
            if self._hand.end(finished[0]):  # else it came too late, and is handled again
                found.append(self._take_off(*finished, result_of))
            finished = self._hands.fetch(0)
        return found

    def find_late(self) -> list[Held]:
        """Return the messages whose handlers take too long."""
        timeout = self._options.timeout
        if timeout is None:
            return []
        now = self._clock.monotonic()
        return [held for held in self._hand.running if now - (held.started or 0) > timeout]

    def close(self) -> None:
        """Let the threads end when they are done with what they do."""
        self._hands.close()
        self._retries.close()

    def _handle(self, held: Held) -> Ended:
        message = Message(
            id=find_id(held.properties),
            queue=held.delivery.queue,
            headers=held.properties.headers,
            body=held.delivery.body,
            crashes=held.crashes,
            retry_id=held.retry_id,
            said=held.said,
        )
        # Here, in the handler's own thread: until it gets its turn, nothing has been started. And before
        # the handler has a chance to end this process.
        self._starts.start(held.place)
        tells = self._options.output_queue is not None
        return held.handler.handle(message, 1 + self._options.immediate_retries, tells=tells)

    def _take_off(self, held: Held, ended: Ended, result_of: ResultOf) -> Finished:
        self._retries.end(held, ended, result_of)
        if isinstance(ended, Broken):
            ended = Broken(ended.problem, held.starts + ended.attempts)
        return held, ended


def end_process(why: str) -> None:
    """End this process at once: what was not given back comes again, counted as a crash."""
    LOG.critical("this worker ends itself (exit code %s): %s", CRASHED, why)
    shutdown()
    os._exit(CRASHED)
