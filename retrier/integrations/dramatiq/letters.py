"""What came with a task of Dramatiq, and what is published for it: failure and confirmation."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import dramatiq
import pika
from dramatiq import Consumer, DecodeError, Message, MessageProxy, get_encoder
from dramatiq.common import current_millis, q_name
from dramatiq.middleware import TimeLimitExceeded

from retrier.clock import Clock
from retrier.domain import headers
from retrier.integrations.failures import (
    FailedTask,
    add_steps,
    describe_failure,
    keep_headers,
    make_confirmation,
)
from retrier.integrations.handover import UnackedHold, settle
from retrier.worker.handlers import make_problem
from retrier.worker.outcomes import Problem, Reason

OPTION = "retrier"
"""The option of a message that carries the headers of a retry, and when it was sent first.

Dramatiq's own retries publish a new message without any AMQP header, but with all options.
"""

_OF_RETRIES = frozenset({"retries", "traceback", "requeue_timestamp"})
_KEPT = ("Retrier.", "ServiceControl.Retry.")


def begin_anew(message: Message[Any], found: Mapping[str, Any]) -> Message[Any]:
    """Return a message as it is to be handled; one that Retrier sends back begins anew.

    Its own retries count from 0, and `max_age` from now: else it would be skipped when it comes. The
    headers are there only when it comes, so its options carry them from now on.
    """
    if headers.RETRY_ID not in found and headers.UNIQUE_MESSAGE_ID not in found:
        return message
    for name in _OF_RETRIES:
        message.options.pop(name, None)
    kept = {name: str(value) for name, value in found.items() if name.startswith(_KEPT)}
    message.options[OPTION] = {"headers": kept, "sent": message.message_timestamp}
    return message.copy(message_timestamp=current_millis())


def find_carried(options: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the headers of the retry that a message is; none if it is no retry."""
    carried = options.get(OPTION)
    found = carried.get("headers") if isinstance(carried, dict) else None
    return found if isinstance(found, dict) else {}


def restore(body: bytes) -> bytes:
    """Return the body as it was before Dramatiq tried the message again and again.

    The encoder is the one that made it, so what comes out is what was first sent, byte for byte.
    """
    fields = get_encoder().decode(body)
    options = fields["options"]
    if not options.keys() & {*_OF_RETRIES, OPTION}:
        return body
    carried = options.get(OPTION)
    if isinstance(carried, dict) and "sent" in carried:
        fields["message_timestamp"] = carried["sent"]
    fields["options"] = {
        name: value for name, value in options.items() if name not in {*_OF_RETRIES, OPTION}
    }
    return get_encoder().encode(fields)


def count_runs(body: bytes) -> int:
    """Return how often the task was started, this time included."""
    retries = get_encoder().decode(body)["options"].get("retries", 0)
    return retries + 1 if isinstance(retries, int) else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """A message as it came. `properties` are pika's."""

    queue: str
    properties: Any
    body: bytes

    @property
    def headers(self) -> Mapping[str, Any]:
        """The headers; none if there are none."""
        return self.properties.headers or {}


LOG = logging.getLogger("retrier.integrations")


class KeepingConsumer(Consumer):
    """A consumer of Dramatiq's RabbitMQ broker that keeps what each message came with."""

    def __init__(self, inner: Any, queue: str, undecodable: Callable[[Delivered], None]) -> None:
        """Look at each message before `inner` does.

        `undecodable` is called with what Dramatiq cannot read: it rejects that, and tells nobody.
        """
        inner.iterator = self._watch(inner.iterator)
        self._inner = inner
        self._queue = queue
        self._undecodable = undecodable
        self._came: list[Delivered] = []

    def __next__(self) -> Any:
        """Return the next message, with `arrival`: how it came; None if there is none yet.

        `retrier_consumer` is this one, by which alone it can be settled.
        """
        self._came.clear()
        message = next(self._inner)
        if message is not None:
            message.arrival = self._came[0]
            message.retrier_consumer = self
            self._begin_anew(message, self._came[0].headers)
        elif self._came:
            self._undecodable(self._came[0])
        return message

    def ack(self, message: MessageProxy) -> None:
        """Acknowledge a message, unless it is held back."""
        self._settle(message, self._inner.ack)

    def nack(self, message: MessageProxy) -> None:
        """Move a message to Dramatiq's dead-letter queue, unless it is held back."""
        self._settle(message, self._inner.nack)

    def requeue(self, messages: Any) -> None:
        """Hand messages back."""
        self._inner.requeue(messages)

    def close(self) -> None:
        """Close the connection."""
        self._inner.close()

    def is_gone(self) -> bool:
        """Say whether the connection has ended: the broker hands out again what is in hand."""
        return not self._inner.connection.is_open

    def _settle(self, message: MessageProxy, act: Callable[[MessageProxy], None]) -> None:
        """Settle a message of this connection only.

        Dramatiq settles by its newest consumer, and delivery tags begin anew with each connection: the
        end of a message from before would settle another one, which might not have begun. The broker
        has handed out again what that connection had in hand.
        """
        if vars(message).get("retrier_consumer") is self:
            settle(_find_hold(message), partial(act, message))

    def _begin_anew(self, message: Any, headers: Mapping[str, Any]) -> None:
        """Never raises: the broker would deliver the message again, for ever."""
        try:
            message._message = begin_anew(message._message, headers)  # noqa: SLF001 - there is no other way in
        except Exception:
            LOG.exception("a retry is handled as if it were none")

    def _watch(self, deliveries: Iterator[Any]) -> Iterator[Any]:
        for method, properties, body in deliveries:
            if method is not None:
                self._came.append(Delivered(queue=self._queue, properties=properties, body=body))
            yield method, properties, body


def _find_hold(message: Any) -> UnackedHold | None:
    """Return what keeps the message from being settled; None if its failure is not owed."""
    hold: UnackedHold | None = vars(message).get("retrier_hold")
    return hold if hold is not None and hold.is_owed else None


UNREADABLE = "(unreadable)"
"""What stands for the actor of a message that Dramatiq cannot read."""

_CALLER = str(Path(dramatiq.__file__).parent)
_NOT_KEPT = ("expiration", "user_id")
"""A failure must not vanish, and the broker may refuse the user_id of another user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A message to publish, with pika's properties; `shorter` ones are without the trace."""

    queue: str
    properties: Any
    shorter: Any
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Letters:
    """What the failures of one worker have in common."""

    error_queue: str
    worker: str
    clock: Clock

    def make_failure(self, message: MessageProxy) -> Letter:
        """Return a message that failed, as it was before Dramatiq tried it again and again."""
        arrival: Delivered = message.arrival
        failed = FailedTask(
            queue=q_name(message.queue_name),
            name=message.actor_name,
            worker=self.worker,
            process=os.getpid(),
            attempts=count_runs(arrival.body),
            at=self.clock.now(),
            problem=_problem(message),
        )
        # The failure of a retry says of which; Dramatiq's own retries have dropped that header.
        given = {**arrival.headers, **find_carried(message.options)}
        return self._letter(arrival, failed, given, restore(arrival.body), message.message_id)

    def make_undecodable(self, arrival: Delivered) -> Letter:
        """Return a message that Dramatiq cannot read, as it came."""
        failed = FailedTask(
            queue=q_name(arrival.queue),
            name=UNREADABLE,
            worker=self.worker,
            process=os.getpid(),
            attempts=0,
            at=self.clock.now(),
            problem=Problem(
                reason=Reason.INVALID,
                type=DecodeError.__name__,
                message="the body is no message of Dramatiq",
            ),
        )
        return self._letter(arrival, failed, arrival.headers, arrival.body, None)

    def make_confirmation(self, message: MessageProxy) -> Letter | None:
        """Return what confirms a retry; None if the message is no retry."""
        made = make_confirmation(find_carried(message.options), self.clock.now())
        if made is None:
            return None
        properties = pika.BasicProperties(headers=dict(made.headers), delivery_mode=2)
        return Letter(queue=made.queue, properties=properties, shorter=properties)

    def _letter(
        self,
        arrival: Delivered,
        failed: FailedTask,
        given: Mapping[str, object],
        body: bytes,
        message_id: str | None,
    ) -> Letter:
        kept = keep_headers(given)
        kept |= add_steps(kept, failed.problem)
        own = {} if message_id is None else {"message_id": message_id}
        whole, short = (
            _copy(arrival.properties, {**kept, **describe_failure(failed, in_short=in_short)}, own)
            for in_short in (False, True)
        )
        return Letter(queue=self.error_queue, properties=whole, shorter=short, body=body)


def _copy(properties: Any, headers: Mapping[str, object], own: Mapping[str, str]) -> Any:
    kept = {name: value for name, value in vars(properties).items() if name not in _NOT_KEPT}
    return pika.BasicProperties(**{"delivery_mode": 2, **kept, **own, "headers": dict(headers)})


def _problem(message: MessageProxy) -> Problem:
    error = message._exception  # noqa: SLF001 - Dramatiq tells it nowhere else
    if error is None:
        told = "a middleware rejected the message"
        return Problem(reason=Reason.EXCEPTION, type="Rejected", message=told)
    is_late = isinstance(error, TimeLimitExceeded | TimeoutError)
    return make_problem(error, Reason.TIMEOUT if is_late else Reason.EXCEPTION, _CALLER)
