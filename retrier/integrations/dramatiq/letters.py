"""The messages that are published for a task of Dramatiq: its failure, and its confirmation."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dramatiq
import pika
from dramatiq import DecodeError, MessageProxy
from dramatiq.common import q_name
from dramatiq.middleware import TimeLimitExceeded

from retrier.clock import Clock
from retrier.integrations.dramatiq.arrivals import Arrival
from retrier.integrations.dramatiq.bodies import count_runs, find_carried, restore
from retrier.integrations.failures import (
    FailedTask,
    add_steps,
    describe_failure,
    keep_headers,
    make_confirmation,
)
from retrier.worker.handlers import make_problem
from retrier.worker.outcomes import Problem, Reason

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
        arrival: Arrival = message.arrival
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

    def make_undecodable(self, arrival: Arrival) -> Letter:
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
        arrival: Arrival,
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
