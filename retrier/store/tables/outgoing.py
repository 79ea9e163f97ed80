"""Copies and notices to be sent (`outgoing`): a row for each, until it is sent."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from sqlalchemy import bindparam, select

from retrier.domain.copies import DeadMessage
from retrier.domain.receipt import Attempt
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import outgoing
from retrier.store.tables.event_log import short


def add(
    tx: Transaction,
    queue: str,
    attempt_ids: Sequence[int],
    attempts: Iterable[Attempt],
    numbers: Mapping[str, int],
) -> None:
    """Have these attempts sent to a queue; `numbers` are those of the messages by unique id.

    Left out are copies of the log queue itself that a broker brought to an error queue.
    """
    rows = [
        {
            "number": numbers[attempt.unique_message_id],
            "attempt_id": attempt_id,
            "queue": queue,
            "created_at": tx.now,
        }
        for attempt_id, attempt in zip(attempt_ids, attempts, strict=True)
        if not attempt.is_logged
    ]
    if rows:
        tx.sql.add_rows(tx.conn, outgoing, rows)


def add_notices(
    tx: Transaction, queue: str, notices: Sequence[tuple[DeadMessage, Mapping[str, object]]]
) -> None:
    """Have these notices sent to a queue, each about the message it stands beside."""
    rows = [
        {
            "number": dead.number,
            "attempt_id": dead.attempt_id,
            "queue": queue,
            "created_at": tx.now,
            "notice": notice,
        }
        for dead, notice in notices
    ]
    if rows:
        tx.execute(outgoing.insert(), rows)


def find_messages(tx: Transaction, numbers: Sequence[int]) -> frozenset[int]:
    """Return the numbers of those of these messages that have a copy to be sent."""
    query = select(outgoing.c.number).where(tx.sql.member(outgoing.c.number, numbers))
    return frozenset(tx.execute(query).scalars())


def remove(tx: Transaction, ids: Sequence[int]) -> None:
    """Delete rows whose copies are sent."""
    tx.execute(outgoing.delete().where(tx.sql.member(outgoing.c.outgoing_id, ids)))


def put_off(tx: Transaction, reasons: Mapping[int, str], until: datetime) -> None:
    """Have these rows wait until then, each with the reason why its copy was not taken."""
    change = outgoing.update().where(outgoing.c.outgoing_id == bindparam("row"))
    values = [{"row": key, "why": short(reason), "until": until} for key, reason in reasons.items()]
    tx.execute(change.values(not_before=bindparam("until"), reason=bindparam("why")), values)
