"""Claims (`failed_message_retries`): at most one for each message; and what is kept of them."""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal,
    not_,
    or_,
    select,
    update,
)
from sqlalchemy.sql.dml import ReturningUpdate

from retrier.domain.failed_message import GIVEN_UP, FailedMessageStatus, RetryEnd
from retrier.domain.retry_batch import RetryBatch
from retrier.store.engine.sql_dialect import SqlDialect
from retrier.store.engine.transaction import StoredRow, Transaction, make_ids
from retrier.store.schema import (
    ended_retries,
    failed_message_retries,
    failed_messages,
    retry_operations,
)
from retrier.store.schema.types import Number, UtcTime

claims = failed_message_retries.c


# Made once: SQLAlchemy takes longer to make a statement than to execute it.
_OF_BATCH = select(claims.number).where(claims.batch_id == bindparam("batch"))
_LOCK_BATCH = _OF_BATCH.order_by(claims.number).with_for_update()
_UNRECORDED = _OF_BATCH.add_columns(claims.edit_id).where(claims.forwarded_at.is_(None))
_UNSTAMPED = _OF_BATCH.where(claims.sending_since.is_(None))
_COUNT = (
    select(func.count())
    .select_from(failed_message_retries)
    .where(claims.batch_id == bindparam("batch"))
)
_COUNT_UNRECORDED = _COUNT.where(claims.forwarded_at.is_(None))
_MOVE_REST = (
    update(failed_message_retries)
    .where(claims.batch_id == bindparam("batch"), claims.forwarded_at.is_(None))
    .values(batch_id=bindparam("rest"))
)


def take(
    tx: Transaction, batch_id: str, operation_id: str, failures: Mapping[int, int]
) -> Sequence[int]:
    """Claim messages for a batch; `failures` maps each number to the failure number seen.

    Returns the numbers that no other batch had claimed. No message is locked: Staging drops the
    claim of one that has changed since, as its failure number differs (decision 0027).
    """
    if not failures:
        return []
    numbers = sorted(failures)
    insert = tx.sql.insert_columns(
        failed_message_retries,
        {
            "number": numbers,
            "failure_seq": [failures[number] for number in numbers],
            "retry_id": make_ids(len(numbers)),
        },
        {"batch_id": batch_id, "operation_id": operation_id},
    )
    # The first batch to insert the claim wins; the other one goes on without the message.
    insert = insert.on_conflict_do_nothing().execution_options(preserve_rowcount=True)
    if tx.execute(insert).rowcount == len(numbers):
        return numbers
    # Read back only here: RETURNING would nearly always send back the same thousand rows.
    return tx.execute(_OF_BATCH, {"batch": batch_id}).scalars().all()


def take_for_edit(
    tx: Transaction, retry_id: str, edit_id: str, batch_id: str, operation_id: str, row: StoredRow
) -> bool:
    """Claim a message, which the caller has locked, for an edit of it.

    False if another retry was faster: Marking locks no message.
    """
    taken = (
        tx.sql.insert(failed_message_retries)
        .values(
            number=row.number,
            failure_seq=row.failure_seq,
            retry_id=retry_id,
            batch_id=batch_id,
            operation_id=operation_id,
            edit_id=edit_id,
        )
        .on_conflict_do_nothing()
        .returning(claims.retry_id)
    )
    return tx.execute(taken).first() is not None


def lock(tx: Transaction, numbers: Sequence[int]) -> Sequence[StoredRow]:
    """Lock the claims of these messages, in the order of their numbers; return their rows."""
    if not numbers:
        return []
    query = (
        select(failed_message_retries)
        .where(tx.sql.member(claims.number, numbers))
        .order_by(claims.number)
        .with_for_update()
    )
    return tx.execute(query).all()


def lock_batch(tx: Transaction, batch_id: str) -> None:
    """Lock all claims of a batch in the order of their numbers, as every lock of claims does."""
    tx.execute(_LOCK_BATCH, {"batch": batch_id})


def end(tx: Transaction, numbers: Sequence[int]) -> Sequence[StoredRow]:
    """Delete the claims of these messages; return their rows."""
    return _delete(tx, tx.sql.member(claims.number, numbers))


def drop(tx: Transaction, numbers: Sequence[int]) -> None:
    """Delete the claims of these messages, which the caller has locked and kept."""
    tx.execute(delete(failed_message_retries).where(tx.sql.member(claims.number, numbers)))


def end_unrecorded(tx: Transaction, batch_id: str, numbers: Sequence[int]) -> Sequence[StoredRow]:
    """Delete the unrecorded claims that this batch has of these messages; return their rows."""
    return _delete(
        tx,
        claims.batch_id == batch_id,
        claims.forwarded_at.is_(None),
        tx.sql.member(claims.number, numbers),
    )


def keep_only(tx: Transaction, batch_id: str, numbers: Sequence[int]) -> Mapping[int, str | None]:
    """Delete the batch's unrecorded claims of all other messages; return these by number.

    With the edit that a claim was to send, if it was one.

    They are unstamped, so nothing was sent: a stamped claim holds until its outcome arrives.
    """
    kept = set(numbers)
    unrecorded = tx.execute(_UNRECORDED, {"batch": batch_id})
    left = {row.number: row.edit_id for row in unrecorded if row.number not in kept}
    if left:
        mine = claims.batch_id == batch_id, tx.sql.member(claims.number, sorted(left))
        tx.execute(delete(failed_message_retries).where(*mine))
    return left


def count(tx: Transaction, batch_id: str) -> int:
    """Count the claims of a batch."""
    return int(tx.execute(_COUNT, {"batch": batch_id}).scalar_one())


def count_unrecorded(tx: Transaction, batch_id: str) -> int:
    """Count the claims of a batch that are not recorded as forwarded."""
    return int(tx.execute(_COUNT_UNRECORDED, {"batch": batch_id}).scalar_one())


def list_unstamped(tx: Transaction, batch_id: str) -> Sequence[int]:
    """Return the numbers of the batch's claims whose messages were certainly not sent."""
    return tx.execute(_UNSTAMPED, {"batch": batch_id}).scalars().all()


def move_rest(tx: Transaction, batch_id: str, rest_id: str) -> None:
    """Move the unrecorded claims to another batch; they keep their stamps and retry ids."""
    tx.execute(_MOVE_REST, {"batch": batch_id, "rest": rest_id})


def record_and_stamp(
    tx: Transaction, batch: RetryBatch, recorded: Sequence[int], stamped: Sequence[int]
) -> dict[int, StoredRow]:
    """Record claims of a batch as forwarded and stamp others, all in one statement.

    Returns what it changed, by number. `in_doubt` says of a claim that it was stamped before: its
    message may have been sent already. `sending_since` is told of those that a breaker counts.
    Others are gone, recorded, of a message not *retry issued*, or
    unstamped while their operation is to be cancelled. The caller must have locked no row but the
    lease's: what is recorded gets a number under the cut-off's lock, so that a plan can leave it out.
    """
    known = {
        "batch": batch.batch_id,
        "operation": batch.operation_id,
        "numbers": sorted({*recorded, *stamped}),
        "recorded": recorded,
        "now": tx.now,
        "seq": None,
    }
    if recorded:
        known["seq"] = tx.sql.take_entry_number(tx.conn, by_index=True)
    else:
        tx.sql.force_index_order(tx.conn)
    return {row[0]: row for row in tx.execute(_record_and_stamp(tx.sql), known).all()}


def note_destinations(
    tx: Transaction, batch_id: str, elsewhere: Mapping[str, Sequence[int]]
) -> None:
    """Note of a batch that is staged which of its claims go to which other queue than their own.

    Of the others none is noted any more: it may have been staged before, under another redirect.
    The caller has locked the claims.
    """
    mine = claims.batch_id == batch_id, claims.forwarded_at.is_(None)
    noted = update(failed_message_retries).where(*mine, claims.sent_to.is_not(None))
    tx.execute(noted.values(sent_to=None))
    for queue, numbers in sorted(elsewhere.items()):
        these = tx.sql.member(claims.number, sorted(numbers))
        tx.execute(update(failed_message_retries).where(*mine, these).values(sent_to=queue))


def count_under(tx: Transaction, batch_id: str, breakers: Mapping[int, int]) -> None:
    """Let breakers, given by number, count what becomes of these claims of a batch.

    The caller has locked the claims. There may be as many breakers as claims.
    """
    numbers = sorted(breakers)
    given = tx.sql.rows_of(
        {"number": numbers, "breaker_id": [breakers[number] for number in numbers]},
        failed_message_retries,
    ).subquery("given")
    # By the index of numbers. By that of batches, which `coalesce` hides, SQLite compares each claim
    # with each number that is given: a million times for a full batch.
    of_batch = func.coalesce(claims.batch_id, claims.batch_id) == batch_id
    tx.execute(
        update(failed_message_retries)
        .where(claims.number == given.c.number, of_batch)
        .values(breaker_id=given.c.breaker_id)
    )


def _delete(tx: Transaction, *conditions: Any) -> Sequence[StoredRow]:
    ended = delete(failed_message_retries).where(*conditions).returning(failed_message_retries)
    return sorted(tx.execute(ended).all(), key=lambda row: row.number)


@cache
def _record_and_stamp(sql: SqlDialect) -> ReturningUpdate[Any]:
    """Make one statement that locks nothing first: a lock costs as much as the write itself.

    So the statement itself must visit claims in the order of their numbers, as every lock does,
    or it deadlocks with ingestion of a window's new failures. `coalesce` hides the index of
    batches from the planner, so that only the index of numbers is left (decision 0016).
    """
    now = bindparam("now", type_=UtcTime)
    recorded = sql.listed(claims.number, "recorded")
    # A message that was archived or resolved since it was staged must not be sent. No EXISTS:
    # the server would turn it into a join, and read all messages of that status first.
    status = (
        select(failed_messages.c.status)
        .where(failed_messages.c.number == claims.number)
        .scalar_subquery()
    )
    # In the same statement: once a cancel is committed, no further claim is stamped. Not
    # correlated, so the server looks at the operation once for the whole window.
    cancelled = (
        select(retry_operations.c.cancel_asked)
        .where(retry_operations.c.operation_id == bindparam("operation"))
        .scalar_subquery()
    )
    may_be_sent = or_(claims.sending_since.is_not(None), not_(cancelled))
    return (
        update(failed_message_retries)
        .where(
            func.coalesce(claims.batch_id, claims.batch_id) == bindparam("batch"),
            claims.forwarded_at.is_(None),
            sql.listed(claims.number, "numbers"),
            or_(recorded, and_(status == FailedMessageStatus.RETRY_ISSUED, may_be_sent)),
        )
        .values(
            # Keep the first stamp: the message has been in doubt since then.
            sending_since=func.coalesce(claims.sending_since, now),
            forwarded_at=case((recorded, now)),
            sent_seq=case((recorded, bindparam("seq", type_=Number))),
        )
        # Not `<`: if the clock was set back, the stamp of an earlier try is later than `now`.
        .returning(
            claims.number,
            (claims.sending_since != now).label("in_doubt"),
            claims.breaker_id,
            # SQLite 3.40 takes IS NOT NULL in RETURNING for true: it tells it of all, which is no harm.
            case((claims.breaker_id.is_not(None), claims.sending_since)).label("sending_since"),
        )
    )


def keep_ended(tx: Transaction, claims: Sequence[StoredRow], outcome: RetryEnd) -> None:
    """Keep those of these ended claims that were stamped; nothing was sent under the others."""
    rows = [
        {
            "number": claim.number,
            "retry_id": claim.retry_id,
            "operation_id": claim.operation_id,
            "sending_since": claim.sending_since,
            "forwarded_at": claim.forwarded_at,
            "ended_at": tx.now,
            "outcome": outcome,
        }
        for claim in claims
        if claim.sending_since is not None
    ]
    if rows:
        tx.sql.add_rows(tx.conn, ended_retries, rows)


COUNTED_ENDS = frozenset({RetryEnd.FAILED, RetryEnd.REVERTED})
"""The ends of a retry that the failure count of its message counts already.

A retry that a crash doubled may have both, or one of them twice.
"""


class Ended(NamedTuple):
    """How a retry ended, and on what terms it was sent.

    The queue that its request named instead of the message's own, the headers it went without, and
    the patch by which it was changed.
    """

    outcome: RetryEnd
    destination: str | None
    drop_headers: tuple[str, ...] = ()
    patch: str | None = None


def find_ended(
    tx: Transaction, retries: Mapping[int, Collection[str]]
) -> dict[int, dict[str, Ended]]:
    """Return, by message, how those of these retries ended that have ended."""
    columns, asked = ended_retries.c, retry_operations.c
    query = (
        select(columns.number, columns.retry_id, columns.outcome)
        .add_columns(asked.destination, asked.drop_headers, asked.patch)
        .outerjoin(retry_operations, retry_operations.c.operation_id == columns.operation_id)
        .where(tx.sql.member(columns.number, sorted(retries)))
    )
    ended: dict[int, dict[str, Ended]] = {}
    for number, retry_id, outcome, destination, dropped, patch in tx.execute(query):
        if retry_id in retries[number]:
            found = Ended(RetryEnd(outcome), destination, tuple(dropped or ()), patch)
            ended.setdefault(number, {})[retry_id] = found
    return ended


def find_given_up(
    tx: Transaction, retries: Collection[tuple[int, str]]
) -> Sequence[tuple[str, RetryEnd]]:
    """Return operation and end of those of these retries that were sent, and given up after that."""
    columns = ended_retries.c
    query = select(columns.number, columns.retry_id, columns.operation_id, columns.outcome).where(
        tx.sql.member(columns.number, sorted({number for number, _ in retries})),
        columns.outcome.in_(GIVEN_UP),
        columns.forwarded_at.is_not(None),
    )
    return [
        (row.operation_id, RetryEnd(row.outcome))
        for row in tx.execute(query)
        if (row.number, row.retry_id) in retries
    ]


def delete_ended(tx: Transaction, numbers: Sequence[int]) -> None:
    """Delete the ended retries of these messages."""
    tx.execute(delete(ended_retries).where(tx.sql.member(ended_retries.c.number, numbers)))


def count_sent(tx: Transaction, numbers: Sequence[int]) -> Mapping[str, int]:
    """Return, by operation, how many claims of these messages are recorded as forwarded."""
    query = (
        select(claims.operation_id, func.count())
        .where(tx.sql.member(claims.number, numbers), claims.forwarded_at.is_not(None))
        .group_by(claims.operation_id)
    )
    return {row[0]: row[1] for row in tx.execute(query)}


def keep_claimed(tx: Transaction, numbers: Sequence[int], outcome: RetryEnd) -> None:
    """Keep the stamped claims of these messages, which the caller has locked and deletes next.

    The database copies them: to read and write back a chunk took most of the time of a chunk.
    """
    kept = (claims.number, claims.retry_id, claims.operation_id)
    times = (claims.sending_since, claims.forwarded_at, literal(tx.now, UtcTime))
    rows = select(*kept, *times, literal(str(outcome))).where(
        tx.sql.member(claims.number, numbers), claims.sending_since.is_not(None)
    )
    names = ("number", "retry_id", "operation_id", "sending_since", "forwarded_at")
    tx.execute(insert(ended_retries).from_select([*names, "ended_at", "outcome"], rows))
