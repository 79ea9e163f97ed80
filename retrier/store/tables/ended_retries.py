"""Ended retries (`ended_retries`): what is kept of claims that had been stamped."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import delete, insert, literal, select

from retrier.domain.failed_message import RetryEnd
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.schema import ended_retries, failed_message_retries, retry_operations
from retrier.store.schema.types import UtcTime


def keep(tx: Transaction, claims: Sequence[StoredRow], outcome: RetryEnd) -> None:
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


COUNTED = frozenset({RetryEnd.FAILED, RetryEnd.REVERTED})
"""The ends of a retry that the failure count of its message counts already.

A retry that a crash doubled may have both, or one of them twice.
"""


class Ended(NamedTuple):
    """How a retry ended, and on what terms it was sent.

    The queue that its request named instead of the message's own, and the headers it went without.
    """

    outcome: RetryEnd
    destination: str | None
    drop_headers: tuple[str, ...] = ()


def find_ended(
    tx: Transaction, retries: Mapping[int, Collection[str]]
) -> dict[int, dict[str, Ended]]:
    """Return, by message, how those of these retries ended that have ended."""
    columns, asked = ended_retries.c, retry_operations.c
    query = (
        select(columns.number, columns.retry_id, columns.outcome)
        .add_columns(asked.destination, asked.drop_headers)
        .outerjoin(retry_operations, retry_operations.c.operation_id == columns.operation_id)
        .where(tx.sql.member(columns.number, sorted(retries)))
    )
    ended: dict[int, dict[str, Ended]] = {}
    for number, retry_id, outcome, destination, dropped in tx.execute(query):
        if retry_id in retries[number]:
            found = Ended(RetryEnd(outcome), destination, tuple(dropped or ()))
            ended.setdefault(number, {})[retry_id] = found
    return ended


def delete_of(tx: Transaction, numbers: Sequence[int]) -> None:
    """Delete the ended retries of these messages."""
    tx.execute(delete(ended_retries).where(tx.sql.member(ended_retries.c.number, numbers)))


def keep_claimed(tx: Transaction, numbers: Sequence[int], outcome: RetryEnd) -> None:
    """Keep the stamped claims of these messages, which the caller has locked and deletes next.

    The database copies them: to read and write back a chunk took most of the time of a chunk.
    """
    claims = failed_message_retries.c
    kept = (claims.number, claims.retry_id, claims.operation_id)
    times = (claims.sending_since, claims.forwarded_at, literal(tx.now, UtcTime))
    rows = select(*kept, *times, literal(str(outcome))).where(
        tx.sql.member(claims.number, numbers), claims.sending_since.is_not(None)
    )
    names = ("number", "retry_id", "operation_id", "sending_since", "forwarded_at")
    tx.execute(insert(ended_retries).from_select([*names, "ended_at", "outcome"], rows))
