"""Makes the values that tests feed in: sensible, and different every time."""

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from retrier.domain.classifiers import cause_of
from retrier.domain.dialects import retrier as dialect
from retrier.domain.dialects.retrier import RetrierDialect
from retrier.domain.failed_message import Confirmation, FailedImport, Failure, FailureDetails
from retrier.domain.headers import ENDPOINT, MESSAGE_TYPE
from retrier.domain.identity import body_hash, fingerprint
from retrier.domain.sender_facts import FactReader
from retrier.domain.wire import Edit
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from tests.support import raw_messages

DIALECT = "retrier"
IDENTIFY = RetrierDialect().computed_id
ERROR_QUEUE = "error"
NO_PROPERTIES = b"\x00\x00"
FAILED_AT = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
"""When messages failed, unless a test says otherwise."""

_DETAILS = frozenset(field.name for field in fields(FailureDetails))


def failure(**changes: Any) -> Failure:
    """Make a failure that nothing stored knows; `changes` are fields of it or of its details.

    What follows from other fields (unique id, cause, hashes, times) follows here too. The same
    `message_id`, `endpoint` and `body` make another failure of the same message. Where `raw` is
    not given, it has these `headers` and `content_type`, and says what the details say.
    """
    details = failure_details(**{key: changes.pop(key) for key in _DETAILS & changes.keys()})
    headers = changes.pop("headers", {"Shop.Tenant": "north", "traceparent": str(uuid4())})
    content_type = changes.pop("content_type", "application/json")
    message_id = changes.setdefault("message_id", str(uuid4()))
    body = changes.setdefault("body", b'{"order": "%s"}' % str(message_id).encode())
    if changes.setdefault("dialect", DIALECT) == DIALECT:
        headers = headers | failure_headers(details)
    raw = changes["raw"] if "raw" in changes else _raw(headers, content_type)
    derived: dict[str, Any] = {
        "stamped_id": None,
        "computed_id": message_id and IDENTIFY(message_id, details.endpoint or ""),
        "retry_id": None,
        "raw": raw,
        "cause": cause_of(details),
        "body_hash": body_hash(body),
        "fingerprint": fingerprint(raw, body),
        "error_queue": ERROR_QUEUE,
        "redelivered": False,
        "received_at": (details.time_of_failure or FAILED_AT) + timedelta(seconds=1),
        "sender": FactReader(AmqpPropertyCodec()),
    }
    return Failure(details=details, **(derived | changes))


def failure_details(**changes: Any) -> FailureDetails:
    """Make the details of a failure; a destination that is not given is the queue."""
    queue = changes.setdefault("queue", "orders")
    failed_at = changes.setdefault("time_of_failure", FAILED_AT)
    values: dict[str, Any] = {
        "destination": queue,
        "endpoint": "Sales",
        "message_type": "Shop.PlaceOrder",
        "exception_type": "Shop.OutOfStock",
        "exception_message": "nothing left",
        "stack_trace": "Shop.OutOfStock: nothing left\n   at Shop.Stock.Take(String item)",
        "time_sent": (failed_at or FAILED_AT) - timedelta(seconds=10),
    }
    return FailureDetails(**(values | changes))


def failure_headers(details: FailureDetails) -> dict[str, str]:
    """Return the headers in Retrier's own dialect that say the same."""
    failed_at = details.time_of_failure
    values = {
        dialect.FAILED_QUEUE: details.queue,
        dialect.TIME_OF_FAILURE: failed_at and failed_at.isoformat(),
        dialect.EXCEPTION + "Type": details.exception_type,
        dialect.EXCEPTION + "Message": details.exception_message,
        dialect.EXCEPTION + "StackTrace": details.stack_trace,
        dialect.REASON: details.failure_reason,
        MESSAGE_TYPE: details.message_type,
        ENDPOINT: details.endpoint,
        dialect.HOST: details.host,
        dialect.PROCESS: details.process,
        dialect.NODE: details.node,
    }
    texts = {name: value for name, value in values.items() if value}
    return {name: text.encode(errors="ignore").decode() for name, text in texts.items()}


def _raw(headers: dict[str, object], content_type: str | None) -> bytes:
    fields = {"content_type": content_type} if content_type else {}
    return raw_messages.raw_properties(headers, **fields)


def confirmation(unique_message_id: str, **changes: Any) -> Confirmation:
    """Make the word that a retry succeeded, an hour after messages failed."""
    succeeded_at = changes.setdefault("succeeded_at", FAILED_AT + timedelta(hours=1))
    received_at = (succeeded_at or FAILED_AT) + timedelta(seconds=1)
    values: dict[str, Any] = {
        "unique_message_id": unique_message_id,
        "received_at": received_at,
        "if_unknown": failed_import(reason="it confirms a retry of a message that is not known"),
    }
    return Confirmation(**(values | changes))


def failed_import(raw: bytes = NO_PROPERTIES, body: bytes = b"?", **changes: Any) -> FailedImport:
    """Make a message that could not be understood."""
    values: dict[str, Any] = {
        "error_queue": ERROR_QUEUE,
        "reason": "its properties cannot be read",
        "raw": raw,
        "body": body,
        "fingerprint": fingerprint(raw, body),
        "received_at": FAILED_AT,
    }
    return FailedImport(**(values | changes))


def raw_properties(headers: dict[str, str]) -> bytes:
    """Return AMQP properties with these headers and nothing else."""
    return AmqpPropertyCodec().edit(NO_PROPERTIES, Edit(set_headers=headers))


def dramatiq_body(retries: int = 0) -> bytes:
    """Return the body of a task of Dramatiq, which counts its own retries in there."""
    task = b'"actor_name": "pay", "message_id": "1", "args": [], "kwargs": {}'
    return b'{%s, "options": {"retries": %d}}' % (task, retries)


def unique_id(made: Failure) -> str:
    """Return the unique message id under which a failure from here is stored."""
    found = made.stamped_id or made.computed_id
    if found is None:
        raise ValueError("without a message id the store makes an id up")
    return found
