"""Publishes with Celery's own settings of the broker: to a queue, confirmed, and noticed if missing.

Not by Celery's pool of producers: its connections do not wait for confirms.
"""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Lock, Timer
from typing import Any

from retrier.clock import Clock, SystemClock
from retrier.domain.copies import PROBE_BODY

CONFIRM_TIMEOUT = 5.0
"""Seconds to wait for a confirmation. The worker does nothing else meanwhile."""
TRUSTED = 30.0
"""Seconds after its last use for which a connection is trusted: nobody sends its heartbeats."""

_NACKED = "MessageNacked"
"""What Kombu raises when the queue refuses a message; it has no other name for us here."""


class NotTaken(Exception):
    """The broker did not take a message over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A message for a queue. `shorter`: its headers, if those do not fit into a frame."""

    queue: str
    headers: Mapping[str, object]
    shorter: Mapping[str, object]
    body: bytes = b""
    content_type: str = "application/octet-stream"
    content_encoding: str = "binary"
    compression: str | None = None
    properties: Mapping[str, object] = field(default_factory=dict)


def describe(error: Exception) -> str:
    """Say why something was not published. Other texts than these may quote the message."""
    is_of_the_broker = getattr(error, "reply_code", 0)
    is_harmless = is_of_the_broker or isinstance(error, NotTaken | OSError)
    return f"{type(error).__name__}: {error}" if is_harmless else type(error).__name__


class Publisher:
    """Publishes from any process and thread of a worker."""

    def __init__(
        self, app: Any, clock: Clock | None = None, timeout: float = CONFIRM_TIMEOUT
    ) -> None:
        """Connect to nothing yet. `app`: of Celery, for which there are no types."""
        self._app = app
        self._clock = clock or SystemClock()
        self._timeout = timeout
        self._lines: dict[int, _Line] = {}

    def publish(self, publication: Publication) -> None:
        """Publish; return when the broker has confirmed it. Raises NotTaken, or what Kombu raises.

        A child has a line of its own, and leaves that of its parent alone: to drop it would shut
        down the connection of the parent.
        """
        made = _Line(self._app, self._clock, self._timeout)
        self._lines.setdefault(os.getpid(), made).publish(publication)

    def close(self) -> None:
        """Drop the connection of this process, if there is one; never raises."""
        line = self._lines.pop(os.getpid(), None)
        if line is not None:
            line.drop()


class _Line:
    """One connection, used by one thread at a time. It is opened again after an error."""

    def __init__(self, app: Any, clock: Clock, timeout: float) -> None:
        self._app = app
        self._clock = clock
        self._timeout = timeout
        self._lock = Lock()
        self._connection: Any = None
        self._raw: Any = None
        """What Kombu's connection is made of: only this can be dropped without the peer's help."""
        self._producer: Any = None
        self._used = 0.0
        self._returned: list[object] = []

    def publish(self, publication: Publication) -> None:
        """Publish. Three times: idle connections break, and long headers break any connection."""
        full, short = publication.headers, publication.shorter
        with self._lock:
            if self._is_tried(publication, full) or self._is_tried(publication, full):
                return
            self._send(publication, short)

    def _is_tried(self, publication: Publication, headers: Mapping[str, object]) -> bool:
        """Return whether it is published; False after an error with which trying again helps."""
        self._connect()
        try:
            self._send(publication, headers)
        except (NotTaken, TimeoutError):
            raise
        except Exception:  # noqa: BLE001 - Kombu's list of errors differs from broker to broker
            return False
        return True

    def _send(self, publication: Publication, headers: Mapping[str, object]) -> None:
        """Publish with these headers. After any error the connection is gone."""
        self._connect()
        self._returned.clear()
        try:
            self._confirmed(
                publication.body,
                routing_key=publication.queue,
                mandatory=True,
                content_type=publication.content_type,
                content_encoding=publication.content_encoding,
                compression=publication.compression,
                headers=dict(headers),
                **{"delivery_mode": 2, **publication.properties},
            )
        except Exception as error:
            # A queue that was full may refuse all that comes over the same channel, so not only
            # what broke the connection ends it.
            self.drop()
            if type(error).__name__ == _NACKED:
                raise NotTaken(f"the queue {publication.queue} refuses it: is it full?") from error
            raise
        self._used = self._clock.monotonic()
        if self._returned:
            raise NotTaken(f"there is no queue {publication.queue}")

    def _connect(self) -> None:
        """Have a connection; not one that lay idle: what stands in between may have forgotten it."""
        if self._producer is not None and self._clock.monotonic() - self._used < TRUSTED:
            return
        self.drop()
        waits = {"read_timeout": self._timeout, "write_timeout": self._timeout}
        self._connection = self._app.connection_for_write(
            transport_options={"confirm_publish": True, **waits}
        )
        try:
            self._connection.connect()
            self._raw = self._connection.connection
            self._producer = self._app.amqp.Producer(
                self._connection.channel(), auto_declare=False, on_return=self._note_returned
            )
            self._probe()
        except Exception:
            self.drop()
            raise
        self._used = self._clock.monotonic()

    def _probe(self) -> None:
        """Publish to a queue that nobody has, and wait for the confirmation.

        A broker under an alarm takes all that was sent to it when the alarm ends. What is tried
        again and again must not pile up there: only probes do, and it drops those.
        """
        kind = {"content_type": "application/octet-stream", "content_encoding": "binary"}
        self._confirmed(PROBE_BODY, routing_key="", delivery_mode=1, **kind)

    def _confirmed(self, body: bytes, **given: Any) -> None:
        """Publish, and wait for the confirmation. Raises TimeoutError, or what Kombu raises.

        The connection is cut when the time is over: Kombu's wait begins anew with each heartbeat of
        the broker, and would not end as long as an alarm lasts.
        """
        is_over = Event()
        watch = Timer(1.2 * self._timeout, _cut, (self._raw, is_over))
        watch.daemon = True
        watch.start()
        waits = {"timeout": self._timeout, "confirm_timeout": self._timeout}
        try:
            self._producer.publish(body, exchange="", **waits, **given)
        except Exception as error:
            if is_over.is_set():
                raise TimeoutError(f"no answer in {self._timeout:g} seconds") from error
            raise
        finally:
            watch.cancel()

    def _note_returned(self, error: object, *_about: object) -> None:
        self._returned.append(error)

    def drop(self) -> None:
        """Forget the connection, and only then close it: whatever that raises, the next is new.

        The socket goes first. A peer that is not there would let a goodbye wait for ever.
        """
        raw, connection = self._raw, self._connection
        self._raw = self._connection = self._producer = None
        with suppress(Exception):
            raw.collect()
        with suppress(Exception):
            connection.close()


def _cut(raw: Any, is_over: Event) -> None:
    is_over.set()
    with suppress(Exception):
        raw.sock.shutdown(socket.SHUT_RDWR)
