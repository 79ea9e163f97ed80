"""What a request of Celery's worker tells: where it failed, why, and the message as it came."""

from collections.abc import Mapping
from typing import Any

from celery.exceptions import Reject, SoftTimeLimitExceeded, TimeLimitExceeded, WorkerLostError

from retrier.domain.streams import find_said
from retrier.integrations.celery_publisher import Publication
from retrier.integrations.failures import (
    Confirmation,
    FailedTask,
    add_steps,
    describe_failure,
    keep_headers,
)
from retrier.worker.outcomes import Problem, Reason

LATE = (TimeoutError, TimeLimitExceeded, SoftTimeLimitExceeded)
EXPIRES = "expires"
_OF_THE_BODY = frozenset({"content_type", "content_encoding", "application_headers"})
_NOT_KEPT = _OF_THE_BODY | {"expiration", "user_id"}
"""A failure must not vanish, and the broker may refuse the user_id of another user."""


def find_queue(message: Any, consumer: Any) -> str:
    """Return the queue from which Celery's consumer took the message.

    By its tag: exchange and routing key do not tell it where a queue is bound by a pattern, or
    where Celery's delays moved the message. Without the tag they are all there is.
    """
    info = message.delivery_info or {}
    tags = getattr(getattr(consumer, "task_consumer", None), "_active_tags", {})
    found = (queue for queue, tag in list(tags.items()) if tag == info.get("consumer_tag"))
    return next(found, None) or str(info.get("routing_key") or "")


def unwrap(error: Any) -> Any:
    """Return the exception itself: a pool may wrap it together with its trace.

    A pool without processes calls a task that wants to end its process a lost worker.
    """
    found = getattr(error, "exc", error) if type(error).__name__ == _WRAPPED else error
    cause = getattr(found, "__context__", None)
    is_no_loss = isinstance(found, WorkerLostError) and isinstance(cause, _ENDS)
    return cause if is_no_loss else found


_WRAPPED = "ExceptionWithTraceback"
_ENDS = (SystemExit, KeyboardInterrupt)


def make_problem(error: BaseException, trace: object) -> Problem:
    """Return what the failure is told with. A rejection is told by its reason."""
    told = error.reason if isinstance(error, Reject) and error.reason is not None else error
    return Problem(
        reason=Reason.TIMEOUT if isinstance(told, LATE) else Reason.EXCEPTION,
        type=_type_of(told) if isinstance(told, BaseException) else type(error).__name__,
        message=_say(told),
        stack_trace=str(trace or ""),
        steps=find_said(told) if isinstance(told, BaseException) else find_said(error),
    )


def count_runs(headers: Mapping[str, object]) -> int:
    """Return how often the task has run: once, and once for each retry of its own."""
    retries = headers.get("retries")
    return retries + 1 if isinstance(retries, int) else 1


def name_node(consumer: Any) -> str | None:
    """Return the name of the worker among those of its app: `packers@box-1`.

    It is no part of the endpoint. `celery multi` names each worker apart, and a task that is
    handed from one to the other would become another message.
    """
    return str(getattr(consumer, "hostname", "")) or None


def make_confirming(confirmation: Confirmation) -> Publication:
    """Return the message that confirms a retry."""
    headers = confirmation.headers
    return Publication(queue=confirmation.queue, headers=headers, shorter=headers)


def make_failed(message: Any, failed: FailedTask, task_id: str, error_queue: str) -> Publication:
    """Return the message as it came, with headers that say why it failed.

    The time at which the task expires is taken away: Celery would drop its retry unseen.
    """
    kept = keep_headers(message.headers or {})
    if kept.get(EXPIRES) is not None:
        kept[EXPIRES] = None
    kept |= add_steps(kept, failed.problem)
    given = message.properties or {}
    properties = {name: value for name, value in given.items() if name not in _NOT_KEPT}
    return Publication(
        queue=error_queue,
        headers={**kept, **describe_failure(failed)},
        shorter={**kept, **describe_failure(failed, in_short=True)},
        body=to_bytes(message.body),
        content_type=message.content_type or "application/octet-stream",
        content_encoding=message.content_encoding or "binary",
        compression=_text(kept.get("compression")),
        properties={"message_id": task_id, **properties},
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def to_bytes(body: Any) -> bytes:
    """Return the body as it came over the wire."""
    return body.encode() if isinstance(body, str) else bytes(body)


def _type_of(error: BaseException) -> str:
    """Return the name of the class; of one that could not be pickled it is only told."""
    return str(getattr(error, "exc_cls_name", None) or type(error).__name__)


def _say(told: object) -> str:
    try:
        return str(told)
    except Exception as second:  # noqa: BLE001 - a `__str__` of the user's
        return f"its text cannot be had: {type(second).__name__}"
