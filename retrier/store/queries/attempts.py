"""The processing attempts of one message: every failure, as it was."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, select

from retrier.domain.failed_message import Disposition
from retrier.domain.identity import canonical, is_guid
from retrier.domain.wire import PropertyCodec
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.messages import SOURCES, texts_of
from retrier.store.queries.ordering import Page, PageRequest
from retrier.store.schema import causes, failed_messages, processing_attempts

attempts = processing_attempts.c

SHOWN_ATTEMPTS = 50
"""Attempts that are shown with their message, the newest; `attempts` of the message counts all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAttempt:
    """One failure of a message. `is_current`: the message shows details and headers of this one."""

    attempt_id: int
    retry_id: str | None
    time_of_failure: datetime | None
    received_at: datetime
    redelivered: bool
    error_queue: str
    dialect: str
    queue: str
    endpoint: str | None
    message_type: str | None
    exception_type: str | None
    exception_message: str | None
    stack_trace: str | None
    failure_reason: str | None
    disposition: Disposition | None
    disposition_reason: str | None
    policy: str | None
    reason: str | None
    failure_count: int | None
    retry_at: datetime | None
    host: str | None
    host_id: str | None
    process: str | None
    node: str | None
    is_current: bool


_PLAIN = (
    attempts.attempt_id,
    attempts.retry_id,
    attempts.time_of_failure,
    attempts.received_at,
    attempts.redelivered,
    attempts.error_queue,
    attempts.dialect,
    attempts.disposition_reason,
    attempts.policy,
    attempts.reason,
    attempts.failure_count,
    attempts.retry_at,
    causes.c.endpoint,
    causes.c.message_type,
    causes.c.exception_type,
    causes.c.failure_reason,
)
"""Columns that are shown as they are."""


@reading
def list_attempts(
    tx: Transaction,
    unique_message_id: str,
    page: PageRequest,
    codec: PropertyCodec,
    *,
    descending: bool = False,
) -> Page[ShownAttempt] | None:
    """Return one page of all failures of a message, the oldest first; None if there is no such.

    Raises DatabaseUnavailable.
    """
    message = find_row(tx, unique_message_id)
    if message is None:
        return None
    of_message = attempts.number == message["number"]
    count = select(func.count()).select_from(processing_attempts).where(of_message)
    key = attempts.attempt_id.desc() if descending else attempts.attempt_id
    query = _shown().where(of_message).order_by(key).limit(page.size).offset(page.offset)
    total = tx.execute(count).scalar_one()
    rows = tx.execute(query).mappings()
    return Page(items=tuple(_from_row(dict(row), message, codec) for row in rows), total=total)


def find_row(tx: Transaction, unique_message_id: str) -> Mapping[str, Any] | None:
    """Return the row of a message, and the queue of its cause; None if there is no such."""
    if not is_guid(unique_message_id):
        return None
    messages = failed_messages.c
    query = (
        select(failed_messages, causes.c.queue)
        .join(causes, causes.c.cause_id == messages.cause_id)
        .where(messages.unique_message_id == canonical(unique_message_id))
    )
    row = tx.execute(query).mappings().one_or_none()
    return None if row is None else dict(row)


def newest_attempts(
    tx: Transaction, message: Mapping[str, Any], codec: PropertyCodec
) -> tuple[ShownAttempt, ...]:
    """Return the newest attempts of a message (`number`, `attempt_id`, `queue`), oldest first."""
    of_message = _shown().where(attempts.number == message["number"])
    query = of_message.order_by(attempts.attempt_id.desc()).limit(SHOWN_ATTEMPTS)
    rows = tx.execute(query).mappings().all()
    return tuple(_from_row(dict(row), message, codec) for row in reversed(rows))


def attempts_named(
    tx: Transaction, message: Mapping[str, Any], ids: Iterable[int], codec: PropertyCodec
) -> Mapping[int, ShownAttempt]:
    """Return the attempts of a message with these ids."""
    rows = tx.execute(_shown().where(tx.sql.member(attempts.attempt_id, sorted(ids)))).mappings()
    return {row["attempt_id"]: _from_row(dict(row), message, codec) for row in rows}


def _shown() -> Select[Any]:
    return select(*_PLAIN, attempts.disposition, *SOURCES).outerjoin_from(
        processing_attempts, causes, causes.c.cause_id == attempts.cause_id
    )


def _from_row(
    row: Mapping[str, Any], message: Mapping[str, Any], codec: PropertyCodec
) -> ShownAttempt:
    texts = texts_of(row, codec)
    return ShownAttempt(
        **{column.name: row[column.name] for column in _PLAIN},
        # An old attempt's cause may be deleted: it has no foreign key.
        queue=row["queue"] or message["queue"],
        disposition=Disposition(row["disposition"]) if row["disposition"] else None,
        exception_message=texts.exception_message,
        stack_trace=texts.stack_trace,
        host=texts.host,
        host_id=texts.host_id,
        process=texts.process,
        node=texts.node,
        is_current=row["attempt_id"] == message["attempt_id"],
    )
