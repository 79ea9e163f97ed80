"""Failed messages (`failed_messages`): locked, added, counted, and moved between states."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    Update,
    and_,
    bindparam,
    case,
    delete,
    false,
    func,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.sql.dml import ReturningUpdate

from retrier.domain.decision import Decision
from retrier.domain.failed_message import (
    MOVES,
    Disposition,
    FailedMessageStatus,
    LastWord,
    Move,
    Resolution,
)
from retrier.domain.recording import MessageChange
from retrier.domain.retry_operation import STANDING_OPERATION
from retrier.store.attempts import (
    NO_POLICY,
    Columns,
    Newest,
    decided_columns,
    shown_columns,
)
from retrier.store.engine.sql_dialect import NumberSource, SqlDialect
from retrier.store.engine.transaction import StoredRow, Transaction, add_new
from retrier.store.schema import SCHEDULED, failed_message_retries, failed_messages
from retrier.store.schema.types import UtcTime

messages = failed_messages.c
claims = failed_message_retries.c


def lock_by_id(tx: Transaction, unique_ids: Sequence[str]) -> Sequence[StoredRow]:
    """Lock the messages that have these ids, in the order of their numbers; return their rows."""
    if not unique_ids:
        return []
    query = (
        select(failed_messages)
        .where(tx.sql.member(messages.unique_message_id, unique_ids))
        .order_by(messages.number)
        .with_for_update()
    )
    return tx.execute(query).all()


def find_existing(tx: Transaction, unique_ids: Sequence[str]) -> frozenset[str]:
    """Return those of these ids that exist; locks nothing."""
    if not unique_ids:
        return frozenset()
    column = messages.unique_message_id
    return frozenset(tx.execute(select(column).where(tx.sql.member(column, unique_ids))).scalars())


def lock(tx: Transaction, numbers: Sequence[int]) -> None:
    """Lock these messages in the order of their numbers; call it before locking any claim."""
    if numbers:
        tx.execute(_lock(tx.sql), {"numbers": numbers})


def lock_those(
    tx: Transaction, unique_ids: Sequence[str], conditions: Iterable[ColumnElement[bool]]
) -> Sequence[StoredRow]:
    """Lock those of these messages that meet conditions, in the order of their numbers.

    They are found by their ids. The conditions stand in a CASE, where no index is used for them:
    see `legal`.
    """
    meets = case((and_(true(), *conditions), true()), else_=false())
    query = (
        select(messages.number, messages.unique_message_id, messages.status)
        .where(tx.sql.member(messages.unique_message_id, unique_ids), meets)
        .order_by(messages.number)
        .with_for_update()
    )
    return tx.execute(query).all()


def lock_oldest(
    tx: Transaction, conditions: Iterable[ColumnElement[bool]], most: int
) -> Sequence[StoredRow]:
    """Lock those that meet conditions, longest unchanged first; return their numbers and sizes.

    One that somebody else has locked is left out: waiting for it in this order could deadlock.
    All of them have one resolution; that it is named makes this the order of the index, where
    PostgreSQL would else sort everything that is due, for each chunk anew.
    """
    query = (
        select(messages.number, messages.body_size, messages.properties_size, messages.attempts)
        .where(*conditions)
        .order_by(messages.resolution, messages.last_modified)
        .limit(most)
        .with_for_update(skip_locked=True)
    )
    return tx.execute(query).all()


def lock_presumable(
    tx: Transaction, numbers: Sequence[int], sent_before: datetime
) -> Sequence[int]:
    """Lock those of these messages, and their claims, whose retry was recorded before that time.

    A claim in doubt is left out: its message may never have been sent. So is a row that somebody
    else has locked: ingestion may be storing the outcome. This waits for nobody: no deadlock.
    """
    query = (
        select(messages.number)
        .join_from(failed_messages, failed_message_retries, claims.number == messages.number)
        .where(
            tx.sql.member(messages.number, numbers),
            legal(Move.PRESUMED),
            messages.last_retry_id == claims.retry_id,
            claims.forwarded_at <= sent_before,
        )
        .with_for_update(skip_locked=True)
    )
    return tx.execute(query).scalars().all()


def sendable() -> ColumnElement[bool]:
    """Return the condition that a claim still holds, for a join of messages and claims.

    Either the message is unresolved with the failure number of the claim: Marking locks no
    message, so it may have failed again or been archived meanwhile (decision 0027). Or it is
    *retry issued* by this very claim: Forwarding moved it to a new batch in Staging.
    """
    return or_(
        (messages.status == FailedMessageStatus.UNRESOLVED)
        & (messages.failure_seq == claims.failure_seq),
        (messages.status == FailedMessageStatus.RETRY_ISSUED)
        & (messages.last_retry_id == claims.retry_id),
    )


def legal(move: Move) -> ColumnElement[bool]:
    """Return the condition that a message may make this move; for messages found by their numbers.

    No index is to be used for it. While the statistics are older than an act on many, PostgreSQL
    takes a status for rare, and would read all messages that have it, once for each message.
    """
    sources, _ = MOVES[move]
    status = messages.status.concat("")
    # OR, not IN: SQLAlchemy cannot expand a list of values in a statement for many rows.
    return or_(*(status == source for source in sorted(sources)))


@cache
def _lock(sql: SqlDialect) -> Select[Any]:
    return (
        select(messages.number)
        .where(sql.listed(messages.number, "numbers"))
        .order_by(messages.number)
        .with_for_update()
    )


def shown_values(names: Sequence[str], *, stays_in_stream: bool) -> dict[str, ColumnElement[Any]]:
    """Return what the columns with these names become: parameters, named `new_` and the name."""
    values: dict[str, ColumnElement[Any]] = {
        name: bindparam(f"new_{name}", type_=messages[name].type) for name in names
    }
    return values | (_stay_in_stream(values) if stays_in_stream else {})


def _stay_in_stream(named: Mapping[str, ColumnElement[Any]]) -> dict[str, ColumnElement[Any]]:
    """Return the columns of its stream; `named` are those that its newest failure gives.

    A consumer may lose headers at the second failure, and a redirect changes the queue: followers
    would go if it left its stream. So it stays where it was, unless the failure names another
    stream. Its place in the stream does not change either: the position that was stated when it
    joined the stream, then its number. It must be released anew.
    """
    stream_id, queue, rule = (named[name] for name in ("stream_id", "stream_queue", "stream_rule"))
    stays = stream_id.is_(None) | (stream_id == messages.stream_id)
    in_none = stream_id.is_(None) & messages.stream_id.is_(None)
    return {
        "stream_id": func.coalesce(stream_id, messages.stream_id),
        "stream_queue": case((stays, messages.stream_queue), else_=queue),
        **{
            name: case((stays, messages[name]), else_=named[name])
            for name in ("stream_position", "stream_position_unread")
        },
        "stream_rule": case((in_none, None), else_=rule),
        "released": false(),
    }


_KEY = messages.number == bindparam("key")
_NOW = bindparam("now", type_=UtcTime)
_FIRST = bindparam("first", type_=UtcTime)
_SCHEDULE_ANEW = (
    update(failed_messages)
    .where(_KEY, SCHEDULED)
    .values(retry_at=bindparam("due", type_=UtcTime), last_modified=_NOW)
)
_COUNTED = {
    "attempts": messages.attempts + bindparam("added"),
    "first_failure": case((messages.first_failure > _FIRST, _FIRST), else_=messages.first_failure),
}
"""What every attempt changes in the row of its message; see `_counted` for the parameters."""
_COUNT_ISSUED = case((claims.operation_id == STANDING_OPERATION, messages.failure_count), else_=0)
"""A retry that a person asked for begins the count of failures anew."""
_PRESUMED = messages.resolution == Resolution.PRESUMED
"""Resolved, but nobody has said so: its retry was sent long ago and did not come back."""
_NO_DISPOSITION = {
    "disposition": Disposition.MANUAL,
    **dict.fromkeys(("disposition_reason", "policy", "retry_at")),
}
"""Only an unresolved message has a decision (check constraint): whatever ends that ends a schedule."""
_KEPT = {
    "archived_disposition": messages.disposition,
    "archived_reason": messages.disposition_reason,
    "archived_policy": messages.policy,
    "archived_retry_at": messages.retry_at,
}
"""An archived message keeps what was decided about it: a mistake must not make a dead one retryable."""
NO_CHANGE: Columns = MappingProxyType({})
_NOT_KEPT = dict.fromkeys(_KEPT)
_GIVEN_BACK = {
    # Somebody may have archived it by hand, in the database.
    "disposition": func.coalesce(messages.archived_disposition, Disposition.MANUAL),
    "disposition_reason": messages.archived_reason,
    "policy": messages.archived_policy,
    # Its time has passed meanwhile: it is due at once. The rate of the policies spreads many.
    "retry_at": case((messages.archived_retry_at < _NOW, _NOW), else_=messages.archived_retry_at),
    # Declared dead by a person, no rule, it was their last word before they archived it.
    "last_word": case(
        (
            (messages.archived_disposition == Disposition.DEAD)
            & messages.archived_policy.is_(None),
            LastWord.DEAD,
        ),
        else_=None,
    ),
    "last_modified": _NOW,
}


def add(tx: Transaction, numbers: Sequence[int], new: Sequence[Newest]) -> None:
    """Add messages under these numbers, each with a new failure number.

    Added in the order of their unique ids: two processes that add the same must not deadlock.
    Raises ConcurrentChange if another process has added one of them meanwhile.
    """
    seqs = tx.sql.take_numbers(tx.conn, NumberSource.FAILURE_SEQ, len(new)) if new else []
    # Each column of a row that is added takes time, and nearly no new message has these.
    said = any(each.shown.attempt.word for each in new)
    edited = any(each.shown.attempt.edit_of for each in new)
    rows = [
        {
            "number": number,
            "failure_seq": seq,
            "unique_message_id": each.change.unique_message_id,
            "attempts": each.change.attempts_added,
            "first_failure": each.change.first_failure,
            "status": FailedMessageStatus.UNRESOLVED,
            "derived_from": each.shown.attempt.derived_from,
            **shown_columns(each),
            **({"last_word": each.shown.attempt.word} if said else {}),
            **({"edit_of": each.shown.attempt.edit_of} if edited else {}),
        }
        for number, seq, each in zip(numbers, seqs, new, strict=True)
    ]
    add_new(tx, failed_messages, sorted(rows, key=lambda row: str(row["unique_message_id"])))


def become_unresolved(
    tx: Transaction,
    move: Move,
    decisions: Mapping[int, Decision],
    *,
    classified: Columns = NO_CHANGE,
) -> None:
    """Make messages unresolved, each under a new failure number and with a decision.

    `classified` has the reason under which they are classified from now on, until they fail again,
    and the text that says so.

    The new number is above every cut-off so far: no earlier operation picks the message up. The
    caller must share the cut-off, then lock the messages. One that may not move is not changed.
    """
    more: Columns = {"last_modified": tx.now} if decisions else {}
    more = {**more, **classified, "last_word": LastWord.DEAD if move is Move.GIVEN_UP else None}
    decided = {number: decided_columns(each) for number, each in decisions.items()}
    _move_anew(tx, move, {number: {**each, **more} for number, each in decided.items()})


def revert(tx: Transaction, judged: Mapping[int, Columns]) -> None:
    """Do so to messages whose retries could not be sent, with what was judged about them."""
    # A person may have asked for the retry: that is their last word now.
    modified = {"last_modified": tx.now, "last_word": None} if judged else {}
    _move_anew(tx, Move.REVERTED, {number: {**each, **modified} for number, each in judged.items()})


def fail_anew(tx: Transaction, newest: Mapping[int, Newest]) -> None:
    """Do so to messages that have failed again; they show their newest failures from now on."""
    shown = {
        number: {**NO_POLICY, **shown_columns(each), "last_word": each.shown.attempt.word}
        for number, each in newest.items()
    }
    counted = {number: _counted(each.change) for number, each in newest.items()}
    _move_anew(tx, Move.FAILED, shown, counted)


def count_attempts(tx: Transaction, changes: Mapping[int, MessageChange]) -> None:
    """Count attempts that change neither status nor details of their messages.

    The caller must share the cut-off before it locks them: they may come to match a condition on
    attempts or on the time of the last failure.
    """
    if not changes:
        return
    seq = tx.sql.take_entry_number(tx.conn)
    rows = [
        {"key": number, "latest": change.last_failure, "seq": seq, **_counted(change)}
        for number, change in sorted(changes.items())
    ]
    latest = func.coalesce(bindparam("latest", type_=UtcTime), messages.last_failure)
    changed = {"last_failure": latest, "changed_seq": bindparam("seq")}
    tx.execute(update(failed_messages).where(_KEY).values(**_COUNTED, **changed), rows)


def confirm(tx: Transaction, changes: Mapping[int, MessageChange]) -> None:
    """Resolve messages whose consumers confirmed them, also those presumed to have succeeded."""
    found = {n: c.confirmation for n, c in sorted(changes.items()) if c.confirmation is not None}
    if not found:
        return
    # All of them in one statement: one for each took half of what a confirmation costs PostgreSQL.
    columns: dict[str, Sequence[object]] = {
        "number": list(found),
        # NULL if the confirmation has no time: later failures are compared with this one.
        "resolved_at": [each.succeeded_at for each in found.values()],
        "last_modified": [each.received_at for each in found.values()],
    }
    confirmed = tx.sql.rows_of(columns, failed_messages).subquery("confirmed")
    may_move = or_(legal(Move.CONFIRMED), legal(Move.UPGRADED) & _PRESUMED)
    tx.execute(
        update(failed_messages)
        .where(messages.number == confirmed.c.number, may_move)
        .values(
            status=MOVES[Move.CONFIRMED][1],
            resolution=Resolution.CONFIRMED,
            resolved_at=confirmed.c.resolved_at,
            last_modified=confirmed.c.last_modified,
            **_NO_DISPOSITION,
        )
    )


def settle(tx: Transaction, numbers: Sequence[int]) -> None:
    """Resolve messages because a person says so."""
    evidence = {"resolution": Resolution.BY_HAND, "resolved_at": tx.now}
    tx.execute(_put(tx, Move.SETTLED, numbers).values(**evidence, last_word=LastWord.RESOLVED))


def note_edit(tx: Transaction, number: int) -> None:
    """Note that a message, which the caller has locked, has an edit."""
    mine = update(failed_messages).where(messages.number == number)
    tx.execute(mine.values(edited=True, last_modified=tx.now))


def resolve_edited(tx: Transaction, numbers: Sequence[int]) -> None:
    """Resolve messages of which an edited version was sent; the caller must end their claims."""
    evidence = {"resolution": Resolution.EDITED, "resolved_at": tx.now}
    tx.execute(_put(tx, Move.EDITED, numbers).values(**evidence))


def presume(tx: Transaction, numbers: Sequence[int]) -> None:
    """Resolve messages whose retry was sent long ago; the caller must end their claims."""
    evidence = {"resolution": Resolution.PRESUMED, "resolved_at": tx.now}
    tx.execute(_put(tx, Move.PRESUMED, numbers).values(**evidence))


def archive(tx: Transaction, numbers: Sequence[int], operation_id: str | None = None) -> None:
    """Archive messages; they name the archive operation, and keep what an undo gives back.

    The caller must share the cut-off before it locks them.
    """
    kept = {
        "changed_seq": tx.sql.take_entry_number(tx.conn),
        "archive_operation_id": operation_id,
        "last_word": LastWord.ARCHIVED,
        **_KEPT,
    }
    tx.execute(_put(tx, Move.ARCHIVED, numbers).values(kept))


def unarchive(tx: Transaction, numbers: Sequence[int]) -> None:
    """Make archived messages unresolved, each under a new failure number, decided as it was.

    What `become_unresolved` says of locks holds here too.
    """
    if numbers:
        seqs = tx.sql.take_numbers(tx.conn, NumberSource.FAILURE_SEQ, len(numbers))
        pairs = zip(sorted(numbers), seqs, strict=True)
        tx.execute(_UNARCHIVE, [{"key": key, "seq": seq, "now": tx.now} for key, seq in pairs])


def release_from_stream(tx: Transaction, numbers: Sequence[int]) -> None:
    """Let messages, which the caller has locked, go before earlier ones of their streams."""
    these = tx.sql.member(messages.number, numbers)
    tx.execute(update(failed_messages).where(these).values(released=True, last_modified=tx.now))


def issue(tx: Transaction, batch_id: str, numbers: Sequence[int]) -> Sequence[int]:
    """Make messages *retry issued* if their claim by this batch holds; return their numbers."""
    if not numbers:
        return []
    known = {"batch": batch_id, "numbers": numbers, "now": tx.now}
    return tx.execute(_issue(tx.sql), known).scalars().all()


def remove(tx: Transaction, numbers: Sequence[int]) -> None:
    """Delete messages that the caller has locked."""
    tx.execute(delete(failed_messages).where(tx.sql.member(messages.number, numbers)))


_UNARCHIVE = (
    update(failed_messages)
    .where(_KEY, legal(Move.UNARCHIVED))
    .values(
        status=MOVES[Move.UNARCHIVED][1],
        failure_seq=bindparam("seq"),
        archive_operation_id=None,
        **_GIVEN_BACK,
        **_NOT_KEPT,
    )
)


@cache
def _issue(sql: SqlDialect) -> ReturningUpdate[Any]:
    return (
        update(failed_messages)
        .where(
            claims.number == messages.number,
            claims.batch_id == bindparam("batch"),
            sql.listed(claims.number, "numbers"),
            sendable(),
        )
        .values(
            status=MOVES[Move.ISSUED][1],
            last_retry_id=claims.retry_id,
            last_modified=_NOW,
            failure_count=_COUNT_ISSUED,
            # What a person has said something of is sent only because one asked for it since.
            last_word=None,
            **_NO_DISPOSITION,
        )
        .returning(messages.number)
    )


def _move_anew(
    tx: Transaction,
    move: Move,
    changes: Mapping[int, Columns],
    counted: Mapping[int, Columns] | None = None,
) -> None:
    """Make messages unresolved under new failure numbers, each with these columns."""
    if not changes:
        return
    seqs = tx.sql.take_numbers(tx.conn, NumberSource.FAILURE_SEQ, len(changes))
    rows = [
        {
            "key": number,
            "seq": seq,
            **{f"new_{name}": value for name, value in changes[number].items()},
            **(counted[number] if counted else {}),
        }
        for number, seq in zip(sorted(changes), seqs, strict=True)
    ]
    names = tuple(next(iter(changes.values())))
    tx.execute(_moved_anew(move, names, counts=counted is not None), rows)


def schedule_anew(tx: Transaction, times: Mapping[int, datetime]) -> None:
    """Give scheduled messages, by number, other times; the caller has locked them."""
    if times:
        rows = [{"key": number, "due": at, "now": tx.now} for number, at in times.items()]
        tx.execute(_SCHEDULE_ANEW, rows)


@cache
def _moved_anew(move: Move, names: Sequence[str], *, counts: bool) -> Update:
    columns = shown_values(names, stays_in_stream=counts)
    return (
        update(failed_messages)
        .where(_KEY, legal(move))
        .values(
            status=MOVES[move][1],
            failure_seq=bindparam("seq"),
            resolution=None,
            resolved_at=None,
            archive_operation_id=None,
            **_NOT_KEPT,
            **columns,
            **(_COUNTED if counts else {}),
        )
    )


def _put(tx: Transaction, move: Move, numbers: Sequence[int]) -> Update:
    return (
        update(failed_messages)
        .where(tx.sql.member(messages.number, numbers), legal(move))
        .values(status=MOVES[move][1], last_modified=tx.now, **_NO_DISPOSITION)
    )


def _counted(change: MessageChange) -> dict[str, object]:
    return {"added": change.attempts_added, "first": change.first_failure}
