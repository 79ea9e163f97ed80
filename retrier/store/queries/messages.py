"""Failed messages as lists show them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Select, select

from retrier.domain.failed_message import Disposition, FailedMessageStatus, Resolution
from retrier.domain.selection import Selection
from retrier.domain.shown import Shown, derive
from retrier.domain.wire import PropertyCodec
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.ordering import Order, Page, PageRequest, find_numbers
from retrier.store.schema import (
    causes,
    failed_message_retries,
    failed_messages,
    processing_attempts,
)

attempts = processing_attempts.c

SOURCES = (
    attempts.raw_properties,
    attempts.dialect,
    attempts.exception_message,
    attempts.stack_trace,
    causes.c.queue,
)
"""Columns from which `texts_of` makes headers and texts."""


def texts_of(row: Mapping[str, Any], codec: PropertyCodec) -> Shown:
    """Return headers and texts of a row with SOURCES; a text stored in its own column wins."""
    shown = derive(codec, row["raw_properties"], dialect=row["dialect"], otherwise=row["queue"])
    return replace(
        shown,
        exception_message=row["exception_message"] or shown.exception_message,
        stack_trace=row["stack_trace"] or shown.stack_trace,
    )


messages = failed_messages.c


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedMessage:
    """A failed message without headers, body and attempts; fields are named like columns."""

    unique_message_id: str
    message_id: str | None
    status: FailedMessageStatus
    resolution: Resolution | None
    queue: str
    destination: str
    endpoint: str | None
    message_type: str | None
    exception_type: str | None
    exception_message: str | None
    stack_trace: str | None
    failure_reason: str | None
    time_sent: datetime | None
    first_failure: datetime
    last_failure: datetime
    attempts: int
    disposition: Disposition
    disposition_reason: str | None
    retry_at: datetime | None
    reason: str | None
    policy: str | None
    failure_count: int
    last_modified: datetime
    host: str | None
    process: str | None
    node: str | None
    host_id: str | None


_PLAIN = (
    messages.unique_message_id,
    messages.message_id,
    causes.c.destination,
    causes.c.endpoint,
    causes.c.message_type,
    causes.c.exception_type,
    causes.c.failure_reason,
    messages.time_sent,
    messages.first_failure,
    messages.last_failure,
    messages.attempts,
    messages.disposition_reason,
    messages.retry_at,
    messages.reason,
    messages.policy,
    messages.failure_count,
    messages.last_modified,
    messages.host,
    messages.process,
    messages.node,
)
"""Columns that are shown as they are."""

_STATES = (messages.status, messages.resolution, messages.disposition)


@reading
def list_messages(
    tx: Transaction, wanted: Selection, order: Order, page: PageRequest, codec: PropertyCodec
) -> Page[ListedMessage]:
    """Return one page of the messages that match. Raises DatabaseUnavailable."""
    found = find_numbers(tx, wanted, order, page)
    return Page(items=load(tx, found.items, codec), total=found.total, next=found.next)


def shown_messages(*more: Any) -> Select[Any]:
    """Return the query for the columns that `from_row` reads, and for more columns."""
    return (
        select(messages.number, *_STATES, *_PLAIN, *SOURCES, *more)
        .join_from(failed_messages, causes, causes.c.cause_id == messages.cause_id)
        .join(processing_attempts, processing_attempts.c.attempt_id == messages.attempt_id)
    )


def from_row(row: Mapping[str, Any], codec: PropertyCodec) -> ListedMessage:
    """Return a row of `shown_messages` as a ListedMessage."""
    texts = texts_of(row, codec)
    return ListedMessage(
        **{column.name: row[column.name] for column in _PLAIN},
        queue=row["queue"],
        status=FailedMessageStatus(row["status"]),
        resolution=Resolution(row["resolution"]) if row["resolution"] else None,
        disposition=Disposition(row["disposition"]),
        exception_message=texts.exception_message,
        stack_trace=texts.stack_trace,
        host_id=texts.host_id,
    )


def load(
    tx: Transaction, numbers: Sequence[int], codec: PropertyCodec
) -> tuple[ListedMessage, ...]:
    """Return the messages with these numbers, in their order."""
    query = shown_messages().where(tx.sql.member(messages.number, numbers))
    found = {row["number"]: from_row(dict(row), codec) for row in tx.execute(query).mappings()}
    return tuple(found[number] for number in numbers if number in found)


claims = failed_message_retries.c


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownClaim:
    """The claim of a message; in doubt while it is stamped and not recorded."""

    unique_message_id: str
    batch_id: str
    operation_id: str
    retry_id: str
    sending_since: datetime | None
    forwarded_at: datetime | None


def shown_claims() -> Select[Any]:
    """Return the query of all claims, with the columns that a shown claim has."""
    return select(
        failed_messages.c.unique_message_id,
        claims.batch_id,
        claims.operation_id,
        claims.retry_id,
        claims.sending_since,
        claims.forwarded_at,
    ).join_from(failed_message_retries, failed_messages, failed_messages.c.number == claims.number)
