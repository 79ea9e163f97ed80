"""Publishes with Celery's own settings of the broker: to a queue, confirmed, and noticed if missing.

Not by Celery's pool of producers: its connections do not wait for confirms.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

CONFIRM_TIMEOUT = 5.0
"""Seconds to wait for a confirmation. The worker does nothing else meanwhile."""

_CONFIRMED = {"confirm_publish": True}


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
    is_harmless = isinstance(error, NotTaken | OSError)
    return f"{type(error).__name__}: {error}" if is_harmless else type(error).__name__


class Publisher:
    """Publishes from any process and thread of a worker."""

    def __init__(self, app: Any) -> None:
        """Connect to nothing yet. `app`: of Celery, for which there are no types."""
        self._app = app
        self._lines: dict[int, _Line] = {}

    def publish(self, publication: Publication) -> None:
        """Publish; return when the broker has confirmed it. Raises NotTaken, or what Kombu raises.

        A child has a line of its own, and leaves that of its parent alone: to drop it would shut
        down the connection of the parent.
        """
        line = self._lines.setdefault(os.getpid(), _Line(self._app))
        line.publish(publication)


class _Line:
    """One connection, used by one thread at a time. It is opened again after an error."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._lock = Lock()
        self._producer: Any = None
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
        if self._producer is None:
            self._connect()
        try:
            self._send(publication, headers)
        except (NotTaken, TimeoutError):
            raise
        except Exception:  # noqa: BLE001 - Kombu's list of errors differs from broker to broker
            return False
        return True

    def _send(self, publication: Publication, headers: Mapping[str, object]) -> None:
        """Publish with these headers. After any error the connection is closed."""
        if self._producer is None:
            self._connect()
        self._returned.clear()
        try:
            self._producer.publish(
                publication.body,
                exchange="",
                routing_key=publication.queue,
                mandatory=True,
                timeout=CONFIRM_TIMEOUT,
                confirm_timeout=CONFIRM_TIMEOUT,
                content_type=publication.content_type,
                content_encoding=publication.content_encoding,
                compression=publication.compression,
                headers=dict(headers),
                **{"delivery_mode": 2, **publication.properties},
            )
        except Exception:
            self._disconnect()
            raise
        if self._returned:
            raise NotTaken(f"there is no queue {publication.queue}")

    def _connect(self) -> None:
        connection = self._app.connection_for_write(transport_options=_CONFIRMED)
        connection.connect()
        self._producer = self._app.amqp.Producer(
            connection.channel(), auto_declare=False, on_return=self._note_returned
        )

    def _note_returned(self, error: object, *_about: object) -> None:
        self._returned.append(error)

    def _disconnect(self) -> None:
        close: Callable[[], object] = self._producer.connection.close
        self._producer = None
        with suppress(Exception):
            close()
