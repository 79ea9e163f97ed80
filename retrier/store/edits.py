"""Edits (`message_edits`): added with the claim of their message, sent in its place, shown."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    bindparam,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from retrier.domain.edits import (
    EditedVersion,
    EditState,
    ShownEdit,
    compare_headers,
)
from retrier.domain.failed_message import (
    Failure,
    RetryEnd,
)
from retrier.domain.identity import canonical, is_guid
from retrier.domain.recording import MessageChange
from retrier.domain.retry_batch import StoredOriginal
from retrier.domain.wire import PropertyCodec, UnreadableProperties
from retrier.store import claims, event_log, messages
from retrier.store.approvals import waits
from retrier.store.engine.sql_dialect import IN_BINARY, SqlDialect
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.event_log import Entry
from retrier.store.schema import (
    failed_message_retries,
    failed_messages,
    message_edits,
    processing_attempts,
    retry_operation_messages,
)

edits = message_edits.c
attempts = processing_attempts.c
rows = failed_messages.c
retries = failed_message_retries.c
named = retry_operation_messages.c

MOST_SHOWN = 50
"""Edits of one message that are shown, the newest first."""


def add(tx: Transaction, row: Mapping[str, object]) -> None:
    """Add an edit, which has its claim, or waits for approval."""
    tx.execute(insert(message_edits).values(asked_at=tx.now, state=EditState.WAITING, **row))


def find_faster(tx: Transaction, number: int, *, sent: bool) -> str | None:
    """Return who has edited a message that is being sent as edited, or was (`sent`); else None."""
    claimed = exists().where(retries.number == number, retries.edit_id == edits.edit_id)
    being_sent = and_(edits.state == EditState.WAITING, claimed)
    query = (
        select(edits.who)
        .where(
            edits.number == number,
            or_(being_sent, edits.state == EditState.SENT) if sent else being_sent,
        )
        .order_by(edits.asked_at.desc())
        .limit(1)
    )
    who: str | None = tx.execute(query).scalar_one_or_none()
    return who


def find_waiting(tx: Transaction, number: int) -> StoredRow | None:
    """Return the edit of a message that is not sent yet: with its claim, or waiting for approval."""
    query = select(edits.edit_id, edits.operation_id, edits.attempt_id, edits.retry_id, edits.who)
    waiting = query.where(edits.number == number, edits.state == EditState.WAITING)
    return tx.execute(waiting).one_or_none()


def find_of(tx: Transaction, operation_id: str) -> str:
    """Return the edit that an operation sends."""
    return str(tx.execute(select(edits.edit_id).where(is_of(operation_id))).scalar_one())


def drop_unapproved(tx: Transaction, operation_id: str, reason: str) -> None:
    """Drop the edit of an operation that ends without approval; nothing, if it is of no edit."""
    query = select(edits.edit_id).where(is_of(operation_id))
    for edit_id in tx.execute(query).scalars().all():
        end_those(tx, [edit_id], EditState.DROPPED, reason)


def is_of(operation_id: str) -> ColumnElement[bool]:
    """Say whether an edit is of an operation; found by its message, which has an index."""
    numbers = select(named.number).where(named.operation_id == operation_id)
    return and_(edits.number.in_(numbers), edits.operation_id == operation_id)


def load(
    tx: Transaction, operation_id: str, numbers: Sequence[int], steps: Mapping[int, str | None]
) -> Mapping[int, StoredOriginal | None]:
    """Return what is sent instead of those of these messages that the operation has a claim on.

    None where there is no edit any more: then nothing may be sent.
    """
    known = {"operation": operation_id, "numbers": numbers}
    return {
        row.number: None
        if row.body is None
        else StoredOriginal(
            row.raw_properties,
            row.body,
            row.dialect,
            row.error_queue,
            steps.get(row.number),
            edited=True,
        )
        for row in tx.execute(_claimed(tx.sql), known)
    }


def record_sent(tx: Transaction, numbers: Collection[int]) -> None:
    """Resolve messages whose edits are recorded as sent, and end their claims.

    The caller has shared the cut-off and locked the messages, and recorded the claims.
    """
    ended = claims.end(tx, sorted(numbers))
    claims.keep_ended(tx, ended, RetryEnd.EDITED)
    messages.resolve_edited(tx, [claim.number for claim in ended])
    end(tx, ended, EditState.SENT)


_ENTRIES = {
    EditState.SENT: ("edit_sent", "resolved: its edited version was sent"),
    EditState.DROPPED: ("edit_dropped", "its edit was not sent"),
    EditState.IN_DOUBT: ("edit_in_doubt", "its edit may have been sent"),
}
"""What is told of an edit that ended. One that was returned is told with its retry."""


def end(
    tx: Transaction, ended: Iterable[StoredRow], state: EditState, reason: str | None = None
) -> None:
    """Say what became of the edits of these claims, which have ended; of most there is none."""
    ids = [claim.edit_id for claim in ended if claim.edit_id is not None]
    if ids:
        end_those(tx, ids, state, reason)


def end_those(
    tx: Transaction, edit_ids: Sequence[str], state: EditState, reason: str | None = None
) -> None:
    """Say what became of these edits; of one that has ended already, nothing changes."""
    ended = (
        update(message_edits)
        .where(tx.sql.member(edits.edit_id, edit_ids), edits.state == EditState.WAITING)
        .values(state=state, ended_at=tx.now, reason=event_log.short(reason))
        .returning(edits.number, edits.operation_id)
    )
    operations_by_number = {row.number: row.operation_id for row in tx.execute(ended)}
    if state not in _ENTRIES or not operations_by_number:
        return
    kind, words = _ENTRIES[state]
    said = f": {reason}" if reason else ""
    found = tx.execute(
        select(rows.number, rows.unique_message_id)
        .where(tx.sql.member(rows.number, sorted(operations_by_number)))
        .order_by(rows.number)
    )
    event_log.append(
        tx,
        [
            Entry(
                kind=kind,
                text=f"{row.unique_message_id}: {words}{said}",
                unique_message_id=row.unique_message_id,
                operation_id=operations_by_number[row.number],
            )
            for row in found
        ],
    )


def end_with_outcome(tx: Transaction, ended: Sequence[StoredRow], reason: str) -> None:
    """Say what became of the edits of claims that ended because something arrived."""
    for state, stamped in ((EditState.DROPPED, False), (EditState.IN_DOUBT, True)):
        these = [each for each in ended if (each.sending_since is not None) is stamped]
        end(tx, these, state, reason)


def find_retries(tx: Transaction, numbers: Sequence[int]) -> Mapping[int, frozenset[str]]:
    """Return under which retries edited versions of these messages went out, or may have."""
    found: dict[int, set[str]] = {}
    query = select(edits.number, edits.retry_id).where(tx.sql.member(edits.number, numbers))
    for number, retry_id in tx.execute(query) if numbers else ():
        found.setdefault(number, set()).add(retry_id)
    return {number: frozenset(ids) for number, ids in found.items()}


def find_versions(tx: Transaction, failures: Iterable[Failure]) -> Mapping[str, EditedVersion]:
    """Return, by retry id, the edits that failures may be of: they carry no unique id of ours.

    A retry that is none of an edit carries one, so that nothing is looked up for nearly all.
    """
    named = {
        canonical(each.retry_id)
        for each in failures
        if each.retry_id is not None and each.stamped_id is None and is_guid(each.retry_id)
    }
    if not named:
        return {}
    query = (
        select(
            edits.retry_id, edits.edit_id, edits.message_id, edits.body_hash, rows.unique_message_id
        )
        .join_from(message_edits, failed_messages, rows.number == edits.number)
        .where(tx.sql.member(edits.retry_id, sorted(named)))
    )
    return {
        row.retry_id: EditedVersion(
            edit_id=row.edit_id,
            of=row.unique_message_id,
            message_id=row.message_id,
            body_hash=row.body_hash,
        )
        for row in tx.execute(query)
    }


def tell_failed(changes: Iterable[MessageChange]) -> Iterable[Entry]:
    """Yield what the stories of both say when the edited version of a message has failed."""
    for change in changes:
        original = change.details.edit_of if change.is_new and change.details else None
        if original is None:
            continue
        key = change.unique_message_id
        pairs = (
            (original, f"{original}: its edited version has failed: {key}"),
            (key, f"{key}: it is the edited version of {original}"),
        )
        for about, words in pairs:
            yield Entry(kind="edited_version_failed", text=words, unique_message_id=about)


def list_edits(tx: Transaction, number: int, codec: PropertyCodec) -> Sequence[ShownEdit]:
    """Return the edits of a message, the newest first."""
    found = tx.execute(_shown(), {"number": number, "most": MOST_SHOWN})
    return [_show(row, codec) for row in found]


def find_versions_of(tx: Transaction, unique_message_id: str) -> tuple[str, ...]:
    """Return which failed messages are edited versions of this one, the newest first."""
    query = (
        select(rows.unique_message_id)
        .where(rows.edit_of == unique_message_id)
        .order_by(rows.number.desc())
        .limit(MOST_SHOWN)
    )
    return tuple(tx.execute(query).scalars())


def delete_of(tx: Transaction, numbers: Sequence[int]) -> None:
    """Delete the edits of these messages."""
    tx.execute(message_edits.delete().where(tx.sql.member(edits.number, numbers)))


def _show(row: StoredRow, codec: PropertyCodec) -> ShownEdit:
    try:
        changed = compare_headers(codec.read(row.raw_before), codec.read(row.raw_properties))
    except (UnreadableProperties, TypeError):
        changed = None
    return ShownEdit(
        edit_id=row.edit_id,
        operation_id=row.operation_id,
        state=EditState(row.state),
        who=row.who,
        why=row.why,
        reason=row.reason,
        asked_at=row.asked_at,
        ended_at=row.ended_at,
        message_id=row.message_id,
        body_changed=row.body_hash != row.hash_before,
        body_size=row.size,
        headers=changed,
        is_asking=row.is_asking,
    )


@cache
def _claimed(sql: SqlDialect) -> Select[Any]:
    waiting = and_(edits.edit_id == retries.edit_id, edits.state == EditState.WAITING)
    return (
        select(
            retries.number,
            edits.raw_properties,
            edits.body,
            attempts.dialect,
            attempts.error_queue,
        )
        .outerjoin_from(failed_message_retries, message_edits, waiting)
        .outerjoin(processing_attempts, attempts.attempt_id == edits.attempt_id)
        .where(
            sql.listed(retries.number, "numbers"), retries.operation_id == bindparam("operation")
        )
        .execution_options(**{IN_BINARY: True})
    )


@cache
def _shown() -> Select[Any]:
    told = [each for each in edits if each.name not in ("body", "attempt_id", "retry_id")]
    return (
        select(
            *told,
            func.length(edits.body).label("size"),
            waits(edits.operation_id).label("is_asking"),
            attempts.raw_properties.label("raw_before"),
            attempts.body_hash.label("hash_before"),
        )
        .outerjoin_from(message_edits, processing_attempts, attempts.attempt_id == edits.attempt_id)
        .where(edits.number == bindparam("number"))
        .order_by(edits.asked_at.desc(), edits.edit_id)
        .limit(bindparam("most"))
    )
