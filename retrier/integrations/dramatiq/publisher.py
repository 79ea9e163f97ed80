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

from retrier.domain.copies import PROBE_BODY
from retrier.integrations.dramatiq.letters import Letter

TIMEOUT = 10.0
"""Seconds that the end of a task waits for the broker."""
IDLE = 5.0
"""Seconds after which a connection is closed: nobody sends its heartbeats."""
HEARTBEAT = 10
"""Seconds; by its heartbeats a connection is given up that nobody at the other end knows of."""


class NotPublished(Exception):
    """The broker has not confirmed the message."""


def describe(error: Exception) -> str:
    """Say why something was not published. Other texts than these may quote the message."""
    is_harmless = isinstance(error, NotPublished | OSError | pika.exceptions.AMQPError)
    return f"{type(error).__name__}: {error}" if is_harmless else type(error).__name__


class Publisher:
    """Used by all threads of a process."""

    def __init__(self, parameters: Any, timeout: float = TIMEOUT) -> None:
        """`parameters` are pika's, or a list of them: one for each node."""
        several = parameters if isinstance(parameters, list) else [parameters]
        self._parameters = [_timed(each, timeout) for each in several]
        self._timeout = timeout
        self._lock = Lock()
        self._line: _Line | None = None
        self._late: _Line | None = None
        """One that did not answer in time, and waits still."""

    @property
    def stuck(self) -> bool:
        """Whether the broker owes two answers that nobody waits for any more."""
        return all(line is not None and line.is_late for line in (self._line, self._late))

    def publish(self, letter: Letter) -> None:
        """Publish; return when the broker has confirmed it. Raises NotPublished."""
        job = _Job(letter)
        with self._lock:
            self._find_line().jobs.put(job)
        if not job.done.wait(self._timeout):
            job.is_late = True
            raise NotPublished(f"the broker has not answered in {self._timeout:g} seconds")
        if job.problem is not None:
            raise NotPublished(job.problem)

    def _find_line(self) -> "_Line":
        """Return a connection that owes no answer: a half-open one must not hold up all others.

        Two that do not answer are no accident of one connection. The thread is started in the
        process that publishes: a fork would leave it behind.
        """
        if self._line is not None and self._line.is_late:
            if self._late is not None and self._late.is_late:
                raise NotPublished("the broker has not answered the last time either")
            self._line.is_last = True
            self._line, self._late = None, self._line
        if self._line is None:
            self._line = _Line(self._parameters)
        return self._line


@dataclass(slots=True, eq=False)
class _Job:
    letter: Letter
    done: Event = field(default_factory=Event)
    problem: str | None = None
    is_late: bool = False
    """Whether nobody waits for it any more: it is said that it was not published."""


class _Line:
    """A connection with the thread that uses it. It is opened again after an error."""

    def __init__(self, parameters: list[Any]) -> None:
        self.jobs: Queue[_Job] = Queue()
        self.is_last = False
        """Whether nothing more comes than is in its queue already."""
        self._parameters = parameters
        self._doing: _Job | None = None
        self._connection: Any = None
        self._channel: Any = None
        Thread(target=self._run, name="retrier", daemon=True).start()

    @property
    def is_late(self) -> bool:
        """Whether it waits for an answer that nobody else waits for any more."""
        doing = self._doing
        return doing is not None and doing.is_late

    def _run(self) -> None:
        while not (self.is_last and self.jobs.empty()):
            try:
                job = self._doing = self.jobs.get(timeout=IDLE)
            except Empty:
                self._close()
                continue
            if not job.is_late:
                job.problem = self._try(job)
            self._doing = None
            job.done.set()
        self._close()

    def _try(self, job: _Job) -> str | None:
        """Return why it is not published. A connection may have broken unseen: twice as a whole."""
        letter, problem = job.letter, None
        for properties in (letter.properties, letter.properties, letter.shorter):
            try:
                self._connect()
                if job.is_late:  # it was said not to be published: whoever owes it tries again
                    return problem
                self._channel.basic_publish(
                    "", letter.queue, letter.body, properties, mandatory=True
                )
            except pika.exceptions.UnroutableError:
                return f"there is no queue {letter.queue}"
            except Exception as error:  # noqa: BLE001 - the thread must go on, whatever pika raises
                problem = describe(error)
                self._close()
                if isinstance(error, pika.exceptions.NackError):
                    return f"the queue {letter.queue} refuses it: is it full?"
            else:
                return None
        return problem

    def _connect(self) -> None:
        if self._connection is None:
            self._connection = pika.BlockingConnection(self._parameters)
            self._channel = self._connection.channel()
            self._channel.confirm_delivery()
            # A broker under an alarm takes all that was sent to it when the alarm ends. What is
            # tried again must not pile up there: only probes do, for a queue that nobody has.
            self._channel.basic_publish("", "", PROBE_BODY)

    def _close(self) -> None:
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            with suppress(Exception):
                connection.close()


def _timed(parameters: Any, timeout: float) -> Any:
    made = copy(parameters)
    made.connection_attempts = 1
    made.socket_timeout = made.stack_timeout = made.blocked_connection_timeout = timeout
    made.heartbeat = HEARTBEAT
    return made
