"""What came over the wire with a message: Dramatiq reads the body only, and drops the rest."""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from dramatiq import Consumer, MessageProxy

from retrier.integrations.dramatiq.bodies import begin_anew
from retrier.integrations.owed import Hold, settle


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A message as it came. `properties` are pika's."""

    queue: str
    properties: Any
    body: bytes

    @property
    def headers(self) -> Mapping[str, Any]:
        """The headers; none if there are none."""
        return self.properties.headers or {}


LOG = logging.getLogger("retrier.integrations")


class Arrivals(Consumer):
    """A consumer of Dramatiq's RabbitMQ broker that keeps what each message came with."""

    def __init__(self, inner: Any, queue: str, undecodable: Callable[[Arrival], None]) -> None:
        """Look at each message before `inner` does.

        `undecodable` is called with what Dramatiq cannot read: it rejects that, and tells nobody.
        """
        inner.iterator = self._watch(inner.iterator)
        self._inner = inner
        self._queue = queue
        self._undecodable = undecodable
        self._came: list[Arrival] = []

    def __next__(self) -> Any:
        """Return the next message, with `arrival`: how it came; None if there is none yet.

        `retrier_gone` says whether it will come again, for its connection has ended.
        """
        self._came.clear()
        message = next(self._inner)
        if message is not None:
            message.arrival = self._came[0]
            message.retrier_gone = self.is_gone
            self._begin_anew(message, self._came[0].headers)
        elif self._came:
            self._undecodable(self._came[0])
        return message

    def ack(self, message: MessageProxy) -> None:
        """Acknowledge a message, unless it is held back."""
        settle(_find_hold(message), partial(self._inner.ack, message))

    def nack(self, message: MessageProxy) -> None:
        """Move a message to Dramatiq's dead-letter queue, unless it is held back."""
        settle(_find_hold(message), partial(self._inner.nack, message))

    def requeue(self, messages: Any) -> None:
        """Hand messages back."""
        self._inner.requeue(messages)

    def close(self) -> None:
        """Close the connection."""
        self._inner.close()

    def is_gone(self) -> bool:
        """Say whether the connection has ended: the broker hands out again what is in hand."""
        return not self._inner.connection.is_open

    def _begin_anew(self, message: Any, headers: Mapping[str, Any]) -> None:
        """Never raises: the broker would deliver the message again, for ever."""
        try:
            message._message = begin_anew(message._message, headers)  # noqa: SLF001 - there is no other way in
        except Exception:
            LOG.exception("a retry is handled as if it were none")

    def _watch(self, deliveries: Iterator[Any]) -> Iterator[Any]:
        for method, properties, body in deliveries:
            if method is not None:
                self._came.append(Arrival(queue=self._queue, properties=properties, body=body))
            yield method, properties, body


def _find_hold(message: Any) -> Hold | None:
    """Return what keeps the message from being settled; None if its failure is not owed."""
    hold: Hold | None = vars(message).get("retrier_hold")
    return hold if hold is not None and hold.is_owed else None
