"""The ways out a person takes: archive, unarchive, resolve, and the release of a pending retry."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import groupby
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, select, update

from retrier.domain.failed_message import Disposition, FailedMessageStatus, Resolution
from retrier.domain.ways_out import Act, ClaimStage, Refusal, why_not
from retrier.store import event_log
from retrier.store.database import Database
from retrier.store.event_log import Event
from retrier.store.schema import (
    failed_message_retries,
    failed_messages,
    retry_operation_messages,
    retry_operations,
)
from retrier.store.sought import Sought, conditions

messages = failed_messages.c
claims = failed_message_retries.c
operations = retry_operations.c
named = retry_operation_messages.c

_DONE: Mapping[Act, tuple[str, str]] = MappingProxyType(
    {
        Act.ARCHIVE: ("message_archived", "archived"),
        Act.UNARCHIVE: ("message_unarchived", "unarchived: unresolved again"),
        Act.RESOLVE: ("message_resolved", "resolved by hand"),
        Act.RELEASE: ("retry_released", "its retry is waited for no more: unresolved again"),
    }
)
"""The event of each act, and its words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """An act and who asks for it; `sought` is what a bulk selected its messages by."""

    act: Act
    who: str
    sought: Sought | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Acted:
    """The messages that did change, and why the others did not."""

    done: tuple[str, ...]
    refused: Mapping[str, Refusal]


def take_way_out(db: Database, asked: Asked, unique_ids: Sequence[str]) -> Acted:
    """Do the act to each of these messages that may be, and say why the others may not.

    One transaction. Claims end with it; a message that was claimed and not sent yet is out of its
    batch, and its operation counts it as skipped. Raises DatabaseUnavailable.
    """
    return db.transact(partial(_take, db, asked, unique_ids))


def change(db: Database, conn: Connection, asked: Asked, unique_ids: Sequence[str]) -> Acted:
    """Do the act inside a transaction that does more; refusals are left to the caller to tell."""
    if asked.act in (Act.UNARCHIVE, Act.RELEASE):
        # Before any row, as ingestion does it: who waits for the numbers must hold no message.
        db.sql.share_cut_off(conn)
    statuses = _lock_messages(db, conn, asked.sought, unique_ids)
    stages = _lock_claims(db, conn, unique_ids)
    gone = Refusal.UNKNOWN if asked.sought is None else Refusal.CHANGED
    judged = {
        key: why_not(asked.act, statuses[key], stages.get(key, ClaimStage.NONE))
        if key in statuses
        else gone
        for key in unique_ids
    }
    done = tuple(sorted(key for key, refusal in judged.items() if refusal is None))
    _apply(db, conn, asked, done)
    return Acted(done=done, refused={key: why for key, why in judged.items() if why is not None})


def _take(db: Database, asked: Asked, unique_ids: Sequence[str], conn: Connection) -> Acted:
    acted = change(db, conn, asked, unique_ids)
    event_log.append(conn, db.sql.now(conn), list(_refusals(asked, acted)))
    return acted


def _lock_messages(
    db: Database, conn: Connection, sought: Sought | None, unique_ids: Sequence[str]
) -> dict[str, FailedMessageStatus]:
    """Lock the messages by id, looking again at what they were selected by."""
    query = (
        select(messages.unique_message_id, messages.status)
        .where(
            db.sql.member(messages.unique_message_id, unique_ids),
            *(conditions(sought) if sought else ()),
        )
        .order_by(messages.unique_message_id)
        .with_for_update()
    )
    return {row.unique_message_id: FailedMessageStatus(row.status) for row in conn.execute(query)}


def _lock_claims(
    db: Database, conn: Connection, unique_ids: Sequence[str]
) -> dict[str, ClaimStage]:
    query = (
        select(claims.unique_message_id, claims.sending_since, claims.forwarded_at)
        .where(db.sql.member(claims.unique_message_id, unique_ids))
        .order_by(claims.unique_message_id)
        .with_for_update()
    )
    return {row.unique_message_id: _stage(row) for row in conn.execute(query)}


def _stage(claim: Row[*tuple[Any, ...]]) -> ClaimStage:
    if claim.forwarded_at is not None:
        return ClaimStage.SENT
    return ClaimStage.CLAIMED if claim.sending_since is None else ClaimStage.BEING_SENT


def _apply(db: Database, conn: Connection, asked: Asked, done: Sequence[str]) -> None:
    if not done:
        return
    now = db.sql.now(conn)
    match asked.act:
        case Act.ARCHIVE:
            _settle(db, conn, done, status=FailedMessageStatus.ARCHIVED, last_modified=now)
        case Act.RESOLVE:
            _settle(
                db,
                conn,
                done,
                status=FailedMessageStatus.RESOLVED,
                resolution=Resolution.BY_HAND,
                resolved_at=now,
                last_modified=now,
            )
        case Act.UNARCHIVE:
            _make_unresolved(db, conn, done, FailedMessageStatus.ARCHIVED, now)
        case Act.RELEASE:
            _make_unresolved(db, conn, done, FailedMessageStatus.RETRY_ISSUED, now)
    kind, words = _DONE[asked.act]
    events = [
        Event(kind=kind, text=f"{key}: {words}", who=asked.who, unique_message_id=key)
        for key in done
    ]
    event_log.append(conn, now, [*events, *_end_claims(db, conn, asked, done, now)])


def _settle(db: Database, conn: Connection, done: Sequence[str], **values: object) -> None:
    pending = (FailedMessageStatus.UNRESOLVED, FailedMessageStatus.RETRY_ISSUED)
    conn.execute(
        update(failed_messages)
        .where(db.sql.member(messages.unique_message_id, done), messages.status.in_(pending))
        .values(retry_at=None, **values)
    )


def _make_unresolved(
    db: Database,
    conn: Connection,
    done: Sequence[str],
    source: FailedMessageStatus,
    now: datetime,
) -> None:
    """Give new numbers: no operation that was asked for before may pick these messages up."""
    numbers = db.sql.next_failure_seqs(conn, len(done))
    conn.execute(
        update(failed_messages)
        .where(messages.unique_message_id == bindparam("key"), messages.status == source)
        .values(
            status=FailedMessageStatus.UNRESOLVED,
            failure_seq=bindparam("number"),
            disposition=Disposition.MANUAL,
            disposition_reason=None,
            last_modified=now,
        ),
        [{"key": key, "number": number} for key, number in zip(done, numbers, strict=True)],
    )


def _end_claims(
    db: Database, conn: Connection, asked: Asked, done: Sequence[str], now: datetime
) -> Iterable[Event]:
    """End the claims; those of messages not sent yet are shown as skipped by their operations."""
    ended = conn.execute(
        delete(failed_message_retries)
        .where(db.sql.member(claims.unique_message_id, done))
        .returning(claims.operation_id, claims.unique_message_id, claims.forwarded_at)
    )
    unsent = sorted((row for row in ended if row.forwarded_at is None), key=tuple)
    reason = f"it was {_DONE[asked.act][1]} before it was sent"
    for operation_id, rows in groupby(unsent, attrgetter("operation_id")):
        keys = [row.unique_message_id for row in rows]
        _skip(db, conn, operation_id, keys, reason, now)
        for key in keys:
            yield Event(
                kind="retry_skipped",
                text=f"{key}: not retried: {reason}",
                who=asked.who,
                unique_message_id=key,
                operation_id=operation_id,
            )


def _skip(
    db: Database,
    conn: Connection,
    operation_id: str,
    unique_ids: Sequence[str],
    reason: str,
    now: datetime,
) -> None:
    conn.execute(
        update(retry_operations)
        .where(operations.operation_id == operation_id)
        .values(skipped=operations.skipped + len(unique_ids), modified_at=now)
    )
    conn.execute(
        update(retry_operation_messages)
        .where(
            named.operation_id == operation_id,
            db.sql.member(named.unique_message_id, unique_ids),
        )
        .values(skipped_because=reason)
    )


def _refusals(asked: Asked, acted: Acted) -> Iterable[Event]:
    """One event for each reason; it names the message if there is one only."""
    for reason in sorted(set(acted.refused.values())):
        keys = [key for key, why in acted.refused.items() if why is reason]
        one = keys[0] if len(keys) == 1 else None
        yield Event(
            kind=f"{asked.act}_refused",
            text=f"{asked.act} of {one or f'{len(keys)} messages'}: {reason}",
            who=asked.who,
            unique_message_id=one,
        )
