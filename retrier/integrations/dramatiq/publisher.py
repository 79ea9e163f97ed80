"""Publishes with confirms, on a connection and a thread of its own.

A worker's thread must not hang because the error queue takes nothing (a queue without its majority, a
broker short of memory): pika waits for a confirm as long as it takes. So another thread waits.
"""

from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from queue import Empty, Queue
from threading import Event, Lock, Thread
from typing import Any

import pika
import pika.exceptions

from retrier.integrations.dramatiq.letters import Letter

TIMEOUT = 10.0
"""Seconds that the end of a task waits for the broker."""
IDLE = 5.0
"""Seconds after which a connection is closed: nobody sends its heartbeats."""


class NotPublished(Exception):
    """The broker has not confirmed the message."""


def describe(error: Exception) -> str:
    """Say why something was not published. Other texts than these may quote the message."""
    is_harmless = isinstance(error, NotPublished | OSError | pika.exceptions.AMQPError)
    return f"{type(error).__name__}: {error}" if is_harmless else type(error).__name__


@dataclass(slots=True, eq=False)
class _Job:
    letter: Letter
    done: Event = field(default_factory=Event)
    problem: str | None = None


class Publisher:
    """Used by all threads of a process."""

    def __init__(self, parameters: Any, timeout: float = TIMEOUT) -> None:
        """`parameters` are pika's, or a list of them: one for each node."""
        several = parameters if isinstance(parameters, list) else [parameters]
        self._parameters = [_timed(each, timeout) for each in several]
        self._timeout = timeout
        self._jobs: Queue[_Job] = Queue()
        self._owed: _Job | None = None
        self._lock = Lock()
        self._thread: Thread | None = None
        self._connection: Any = None
        self._channel: Any = None

    @property
    def stuck(self) -> bool:
        """Whether the broker still owes an answer that nobody waits for any more."""
        return self._owed is not None and not self._owed.done.is_set()

    def publish(self, letter: Letter) -> None:
        """Publish; return when the broker has confirmed it. Raises NotPublished."""
        if self.stuck:
            raise NotPublished("the broker has not answered the last time either")
        job = _Job(letter)
        self._start()
        self._jobs.put(job)
        if not job.done.wait(self._timeout):
            self._owed = job
            raise NotPublished(f"the broker has not answered in {self._timeout:g} seconds")
        if job.problem is not None:
            raise NotPublished(job.problem)

    def _start(self) -> None:
        """Start the thread, in the process that publishes: a fork would leave it behind."""
        with self._lock:
            if self._thread is None:
                self._thread = Thread(target=self._run, name="retrier", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=IDLE)
            except Empty:
                self._close()
                continue
            job.problem = self._try(job.letter)
            job.done.set()

    def _try(self, letter: Letter) -> str | None:
        """Return why it is not published. A connection may have broken unseen: twice as a whole."""
        problem = None
        for properties in (letter.properties, letter.properties, letter.shorter):
            try:
                self._send(letter, properties)
            except pika.exceptions.UnroutableError:
                return f"there is no queue {letter.queue}"
            except Exception as error:  # noqa: BLE001 - the thread must go on, whatever pika raises
                problem = describe(error)
                self._close()
            else:
                return None
        return problem

    def _send(self, letter: Letter, properties: Any) -> None:
        if self._connection is None:
            self._connection = pika.BlockingConnection(self._parameters)
            self._channel = self._connection.channel()
            self._channel.confirm_delivery()
        self._channel.basic_publish("", letter.queue, letter.body, properties, mandatory=True)

    def _close(self) -> None:
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            with suppress(Exception):
                connection.close()


def _timed(parameters: Any, timeout: float) -> Any:
    made = copy(parameters)
    made.connection_attempts = 1
    made.socket_timeout = made.stack_timeout = made.blocked_connection_timeout = timeout
    return made
