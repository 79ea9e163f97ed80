"""One failed message with everything known of it."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection, select

from retrier.domain.failed_message import Resolution
from retrier.domain.failure_group import FailureGroup
from retrier.store.database import Database
from retrier.store.reading import messages as listed
from retrier.store.reading.messages import ListedMessage
from retrier.store.schema import (
    failed_message_groups,
    failed_message_retries,
    failed_messages,
    failure_groups,
    processing_attempts,
)

SHOWN_ATTEMPTS = 50
"""So many of the newest attempts are shown; `attempts` of the message counts them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAttempt:
    """One failure of a message. `is_current`: the message's details and headers are from it."""

    attempt_id: int
    retry_id: str | None
    time_of_failure: datetime | None
    received_at: datetime
    queue: str
    endpoint: str | None
    exception_type: str | None
    exception_message: str | None
    stack_trace: str | None
    is_current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownClaim:
    """The claim in force of a message; in doubt while it is stamped and not recorded."""

    unique_message_id: str
    batch_id: str
    operation_id: str
    retry_id: str
    sending_since: datetime | None
    forwarded_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDetails:
    """A failed message with headers, attempts (oldest first), groups and claim."""

    message: ListedMessage
    destination: str
    error_queue: str
    dialect: str
    content_type: str | None
    body_size: int
    headers: Mapping[str, object]
    completed_steps: str | None
    stream_id: str | None
    resolution: Resolution | None
    resolved_at: datetime | None
    last_retry_id: str | None
    maybe_copy_of: str | None
    attempts: tuple[ShownAttempt, ...]
    groups: tuple[FailureGroup, ...]
    claim: ShownClaim | None


def find_message(db: Database, unique_message_id: str) -> MessageDetails | None:
    """Return the message with that id, or None. Raises DatabaseUnavailable."""
    return db.read(partial(_find, unique_message_id))


def find_listed(db: Database, unique_message_id: str) -> ListedMessage | None:
    """Return the message as lists show it, or None. Raises DatabaseUnavailable."""
    return db.read(partial(_find_listed, unique_message_id))


def _find_listed(unique_message_id: str, conn: Connection) -> ListedMessage | None:
    row = _row(conn, unique_message_id, *listed.COLUMNS)
    return listed.from_row(row) if row else None


def _find(unique_message_id: str, conn: Connection) -> MessageDetails | None:
    row = _row(conn, unique_message_id, failed_messages)
    if row is None:
        return None
    own = ("message", "attempts", "groups", "claim")
    plain = {f.name: row[f.name] for f in fields(MessageDetails) if f.name not in own}
    return MessageDetails(
        **plain | {"resolution": Resolution(row["resolution"]) if row["resolution"] else None},
        message=listed.from_row(row),
        attempts=_attempts(conn, row),
        groups=_groups(conn, unique_message_id),
        claim=_claim(conn, unique_message_id),
    )


def _row(conn: Connection, unique_message_id: str, *columns: Any) -> dict[str, Any] | None:
    query = select(*columns).where(failed_messages.c.unique_message_id == unique_message_id)
    row = conn.execute(query).mappings().one_or_none()
    return dict(row) if row is not None else None


def _attempts(conn: Connection, message: Mapping[str, Any]) -> tuple[ShownAttempt, ...]:
    query = (
        select(processing_attempts)
        .where(processing_attempts.c.unique_message_id == message["unique_message_id"])
        .order_by(processing_attempts.c.attempt_id.desc())
        .limit(SHOWN_ATTEMPTS)
    )
    rows = [dict(row) for row in conn.execute(query).mappings()]
    return tuple(_attempt(row, message) for row in reversed(rows))


def _attempt(row: Mapping[str, Any], message: Mapping[str, Any]) -> ShownAttempt:
    plain = {f.name: row[f.name] for f in fields(ShownAttempt) if f.name != "is_current"}
    same = ("raw_properties", "body_hash")
    return ShownAttempt(**plain, is_current=all(row[name] == message[name] for name in same))


def _groups(conn: Connection, unique_message_id: str) -> tuple[FailureGroup, ...]:
    query = (
        select(failure_groups)
        .join(failed_message_groups, failed_message_groups.c.group_id == failure_groups.c.group_id)
        .where(failed_message_groups.c.unique_message_id == unique_message_id)
        .order_by(failure_groups.c.classifier)
    )
    return tuple(FailureGroup(**row) for row in conn.execute(query).mappings())


def _claim(conn: Connection, unique_message_id: str) -> ShownClaim | None:
    query = select(failed_message_retries).where(
        failed_message_retries.c.unique_message_id == unique_message_id
    )
    row = conn.execute(query).mappings().one_or_none()
    return ShownClaim(**row) if row is not None else None
