"""Failed messages as ingestion changes them: new rows, new failures, confirmations."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, case, func, or_, select, update

from retrier.domain.failed_message import Disposition, FailedMessageStatus, Resolution
from retrier.domain.judgement import Known
from retrier.domain.receipt import Attempt, MessageChange, StoredMessage
from retrier.store import claims
from retrier.store.columns import long, short
from retrier.store.database import Database
from retrier.store.new_rows import add_new
from retrier.store.schema import failed_messages
from retrier.store.schema.types import UtcTime

messages = failed_messages.c

_first = bindparam("first", type_=UtcTime)
_COUNTED = {
    "attempts": messages.attempts + bindparam("added"),
    "first_failure": case((messages.first_failure > _first, _first), else_=messages.first_failure),
}
"""What every attempt changes in the row of its message; see `_counted` for the parameters."""


def lock(db: Database, conn: Connection, unique_ids: Sequence[str]) -> dict[str, StoredMessage]:
    """Lock the rows of these messages, ordered by id, then their claims; return what they say."""
    if not unique_ids:
        return {}
    query = (
        select(
            messages.unique_message_id,
            messages.message_id,
            messages.body_hash,
            messages.last_retry_id,
            messages.status,
            messages.last_failure,
            messages.last_failure_known,
            messages.resolution,
            messages.resolved_at,
        )
        .where(db.sql.member(messages.unique_message_id, unique_ids))
        .order_by(messages.unique_message_id)
        .with_for_update()
    )
    rows = [dict(row) for row in conn.execute(query).mappings()]
    held = claims.lock(db, conn, unique_ids) if rows else {}
    return {row["unique_message_id"]: _stored(row, held) for row in rows}


def apply(db: Database, conn: Connection, changes: Sequence[MessageChange]) -> None:
    """Write all changes; each message that becomes unresolved takes a new failure number."""
    unresolved = [change for change in changes if change.details is not None]
    seqs = db.sql.next_failure_seqs(conn, len(unresolved)) if unresolved else []
    numbers = dict(zip((c.unique_message_id for c in unresolved), seqs, strict=True))
    _insert(db, conn, [c for c in unresolved if c.is_new], numbers)
    _replace(conn, [c for c in unresolved if not c.is_new], numbers)
    _add_attempts(conn, [c for c in changes if c.details is None and c.attempts_added])
    _resolve(conn, [change for change in changes if change.confirmation is not None])


def _stored(values: Mapping[str, Any], held: Mapping[str, str]) -> StoredMessage:
    unique_id = str(values["unique_message_id"])
    resolution = values["resolution"]
    confirmed = resolution == Resolution.CONFIRMED
    return StoredMessage(
        unique_message_id=unique_id,
        message_id=values["message_id"],
        body_hash=str(values["body_hash"]),
        last_retry_id=values["last_retry_id"],
        known=Known(
            status=FailedMessageStatus(str(values["status"])),
            claim=held.get(unique_id),
            last_failure=values["last_failure"] if values["last_failure_known"] else None,
            resolution=Resolution(str(resolution)) if resolution else None,
            confirmed_at=values["resolved_at"] if confirmed else None,
        ),
    )


def _insert(
    db: Database, conn: Connection, changes: Sequence[MessageChange], numbers: Mapping[str, int]
) -> None:
    # In id order, like every lock: two instances that insert the same messages must not deadlock.
    rows = [
        {
            "unique_message_id": change.unique_message_id,
            "attempts": change.attempts_added,
            "first_failure": change.first_failure,
            "failure_seq": numbers[change.unique_message_id],
            **_details(change.details),
        }
        for change in sorted(changes, key=lambda change: change.unique_message_id)
        if change.details is not None
    ]
    add_new(db, conn, failed_messages, rows)


def _replace(
    conn: Connection, changes: Sequence[MessageChange], numbers: Mapping[str, int]
) -> None:
    new = [
        {"failure_seq": numbers[change.unique_message_id], **_details(change.details)}
        for change in changes
    ]
    rows = [
        {
            **_counted(change),
            **{f"new_{name}": value for name, value in values.items()},
        }
        for change, values in zip(changes, new, strict=True)
    ]
    if rows:
        conn.execute(
            update(failed_messages)
            .where(messages.unique_message_id == bindparam("key"))
            .values(**_COUNTED, **{name: bindparam(f"new_{name}") for name in new[0]}),
            rows,
        )


def _add_attempts(conn: Connection, changes: Sequence[MessageChange]) -> None:
    rows = [{**_counted(change), "latest": change.last_failure} for change in changes]
    if rows:
        latest = func.coalesce(bindparam("latest", type_=UtcTime), messages.last_failure)
        conn.execute(
            update(failed_messages)
            .where(messages.unique_message_id == bindparam("key"))
            .values(**_COUNTED, last_failure=latest),
            rows,
        )


def _resolve(conn: Connection, changes: Sequence[MessageChange]) -> None:
    rows = [
        {
            "key": change.unique_message_id,
            # Left empty without a time: later failures are compared with it.
            "at": change.confirmation.succeeded_at,
            "modified": change.confirmation.received_at,
        }
        for change in changes
        if change.confirmation is not None
    ]
    if rows:
        conn.execute(
            update(failed_messages)
            .where(
                messages.unique_message_id == bindparam("key"),
                # Not IN: a list of values cannot be part of a statement for many rows.
                or_(
                    messages.status == FailedMessageStatus.UNRESOLVED,
                    messages.status == FailedMessageStatus.RETRY_ISSUED,
                ),
            )
            .values(
                status=FailedMessageStatus.RESOLVED,
                resolution=Resolution.CONFIRMED,
                resolved_at=bindparam("at"),
                last_modified=bindparam("modified"),
            ),
            rows,
        )


def _counted(change: MessageChange) -> dict[str, object]:
    return {
        "key": change.unique_message_id,
        "added": change.attempts_added,
        "first": change.first_failure,
    }


def _details(attempt: Attempt | None) -> dict[str, object]:
    if attempt is None:
        return {}
    failure = attempt.failure
    details = failure.details
    return {
        "message_id": short(failure.message_id),
        "status": FailedMessageStatus.UNRESOLVED,
        "queue": short(details.queue),
        "destination": short(details.destination),
        "endpoint": short(details.endpoint),
        "message_type": short(details.message_type),
        "exception_type": short(details.exception_type),
        "exception_message": long(details.exception_message),
        "stack_trace": long(details.stack_trace),
        "failure_reason": short(details.failure_reason),
        "time_sent": details.time_sent,
        # A missing time is filled in for display only; last_failure_known says so.
        "last_failure": attempt.shown_time,
        "last_failure_known": details.time_of_failure is not None,
        "completed_steps": long(details.completed_steps),
        "stream_id": short(details.stream_id),
        "disposition": Disposition.MANUAL,
        "disposition_reason": None,
        "retry_at": None,
        "resolution": None,
        "resolved_at": None,
        "last_modified": failure.received_at,
        "dialect": failure.dialect,
        "error_queue": failure.error_queue,
        "content_type": short(failure.content_type),
        "raw_properties": failure.raw,
        "headers": failure.headers,
        "body_hash": failure.body_hash,
        "body_size": len(failure.body),
        "maybe_copy_of": attempt.maybe_copy_of,
    }
