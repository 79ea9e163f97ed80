"""One failed message with everything known of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, select

from retrier.domain.failed_message import FailureGroup
from retrier.domain.identity import canonical, is_guid
from retrier.domain.shown import derive
from retrier.domain.wire import PropertyCodec
from retrier.store.engine.database import reading
from retrier.store.engine.sql_dialect import IN_BINARY
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.messages import (
    SOURCES,
    ListedMessage,
    ShownClaim,
    from_row,
    shown_claims,
    shown_messages,
    texts_of,
)
from retrier.store.queries.selections import Condition
from retrier.store.schema import (
    cause_groups,
    causes,
    failed_message_retries,
    failed_messages,
    failure_groups,
    processing_attempts,
)

messages = failed_messages.c
attempts = processing_attempts.c

SHOWN_ATTEMPTS = 50
"""At most so many attempts are shown, the newest; `attempts` of the message counts them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAttempt:
    """One failure of a message. `is_current`: the message shows details and headers of this one."""

    attempt_id: int
    retry_id: str | None
    time_of_failure: datetime | None
    received_at: datetime
    queue: str
    endpoint: str | None
    exception_type: str | None
    failure_reason: str | None
    exception_message: str | None
    stack_trace: str | None
    is_current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDetails:
    """A failed message with headers, attempts (oldest first), groups and claim."""

    message: ListedMessage
    error_queue: str
    dialect: str
    content_type: str | None
    body_size: int
    headers: Mapping[str, object]
    completed_steps: str | None
    stream_id: str | None
    resolved_at: datetime | None
    last_retry_id: str | None
    maybe_copy_of: str | None
    attempts: tuple[ShownAttempt, ...]
    groups: tuple[FailureGroup, ...]
    claim: ShownClaim | None


_PLAIN = (
    attempts.error_queue,
    attempts.completed_steps,
    messages.body_size,
    messages.stream_id,
    messages.resolved_at,
    messages.last_retry_id,
    messages.maybe_copy_of,
)
_PLAIN_OF_ATTEMPT = (
    attempts.attempt_id,
    attempts.retry_id,
    attempts.time_of_failure,
    attempts.received_at,
    causes.c.endpoint,
    causes.c.exception_type,
    causes.c.failure_reason,
)
"""Columns that are shown as they are."""


@reading
def find_message(
    tx: Transaction, unique_message_id: str, codec: PropertyCodec
) -> MessageDetails | None:
    """Return the message with that id, or None. Raises DatabaseUnavailable."""
    more = (*_PLAIN, messages.attempt_id, messages.cause_id)
    row = _find(tx, unique_message_id, shown_messages(*more))
    if row is None:
        return None
    texts = texts_of(row, codec)
    return MessageDetails(
        **{column.name: row[column.name] for column in _PLAIN},
        dialect=row["dialect"],
        message=from_row(row, codec),
        content_type=texts.content_type,
        headers=texts.headers,
        attempts=_attempts(tx, row, codec),
        groups=_groups(tx, row["cause_id"]),
        claim=_claim(tx, row["number"]),
    )


@reading
def find_listed(
    tx: Transaction, unique_message_id: str, codec: PropertyCodec
) -> ListedMessage | None:
    """Return the message as lists show it, or None. Raises DatabaseUnavailable."""
    row = _find(tx, unique_message_id, shown_messages())
    return from_row(row, codec) if row else None


def _find(tx: Transaction, unique_message_id: str, query: Select[Any]) -> Mapping[str, Any] | None:
    if not is_guid(unique_message_id):
        return None
    wanted = query.where(messages.unique_message_id == canonical(unique_message_id))
    row = tx.execute(wanted).mappings().one_or_none()
    return dict(row) if row is not None else None


def _attempts(
    tx: Transaction, message: Mapping[str, Any], codec: PropertyCodec
) -> tuple[ShownAttempt, ...]:
    query = (
        select(*_PLAIN_OF_ATTEMPT, *SOURCES)
        .outerjoin_from(processing_attempts, causes, causes.c.cause_id == attempts.cause_id)
        .where(attempts.number == message["number"])
        .order_by(attempts.attempt_id.desc())
        .limit(SHOWN_ATTEMPTS)
    )
    rows = tx.execute(query).mappings().all()
    return tuple(_attempt(dict(row), message, codec) for row in reversed(rows))


def _attempt(
    row: Mapping[str, Any], message: Mapping[str, Any], codec: PropertyCodec
) -> ShownAttempt:
    texts = texts_of(row, codec)
    return ShownAttempt(
        **{column.name: row[column.name] for column in _PLAIN_OF_ATTEMPT},
        # An old attempt's cause may be deleted: it has no foreign key.
        queue=row["queue"] or message["queue"],
        exception_message=texts.exception_message,
        stack_trace=texts.stack_trace,
        is_current=row["attempt_id"] == message["attempt_id"],
    )


def _groups(tx: Transaction, cause_id: int) -> tuple[FailureGroup, ...]:
    query = (
        select(failure_groups)
        .join(cause_groups, cause_groups.c.group_id == failure_groups.c.group_id)
        .where(cause_groups.c.cause_id == cause_id)
        .order_by(failure_groups.c.classifier)
    )
    return tuple(FailureGroup(**row) for row in tx.execute(query).mappings())


def _claim(tx: Transaction, number: int) -> ShownClaim | None:
    query = shown_claims().where(failed_message_retries.c.number == number)
    row = tx.execute(query).mappings().one_or_none()
    return ShownClaim(**row) if row is not None else None


holders = processing_attempts.alias("holders")

_NEWEST = (
    select(
        func.coalesce(attempts.body, holders.c.body).label("body"),
        attempts.body_hash,
        attempts.raw_properties,
        attempts.dialect,
        causes.c.queue,
    )
    .join_from(failed_messages, causes, causes.c.cause_id == messages.cause_id)
    .join(processing_attempts, attempts.attempt_id == messages.attempt_id)
    .outerjoin(holders, holders.c.attempt_id == attempts.same_body_as)
    .order_by(messages.failure_seq.desc())
    .limit(1)
    .execution_options(**{IN_BINARY: True})
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageBody:
    """A body, the hash of its bytes, and the content type that its sender gave."""

    body: bytes
    body_hash: str
    content_type: str | None


@reading
def find_body(tx: Transaction, key: str, codec: PropertyCodec) -> MessageBody | None:
    """Return the body of the message with that unique id, else of the newest with that message id.

    None when there is no such message. Raises DatabaseUnavailable.
    """
    for condition in _meanings(key):
        row = tx.execute(_NEWEST.where(condition)).one_or_none()
        if row is not None:
            shown = derive(codec, row.raw_properties, dialect=row.dialect, otherwise=row.queue)
            return MessageBody(
                body=row.body, body_hash=row.body_hash, content_type=shown.content_type
            )
    return None


def _meanings(key: str) -> Iterator[Condition]:
    if is_guid(key):
        yield messages.unique_message_id == canonical(key)
    yield messages.message_id == key
