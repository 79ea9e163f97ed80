"""The next messages of an act on many, behind its cursor."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Select, func, select

from retrier.domain.archive_operation import AT_ONCE, ArchiveOperation
from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.selection import Selection
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.selections import conditions
from retrier.store.schema import archive_operation_messages, failed_messages

messages = failed_messages.c
named = archive_operation_messages.c

_UNRESOLVED = frozenset({FailedMessageStatus.UNRESOLVED})


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveChunk:
    """Unique message ids, and the cursor behind them; `is_last` if no more are to come."""

    unique_ids: tuple[str, ...]
    cursor: int
    is_last: bool


@reading
def find_archive_chunk(
    tx: Transaction, operation: ArchiveOperation, most: int = AT_ONCE
) -> ArchiveChunk:
    """Return the next messages of an operation, at most so many; locks nothing.

    What arrived after the request is left out. Raises DatabaseUnavailable.
    """
    if operation.selection.ids is not None:
        return _chunk_of(tx, _next_named(operation, most), operation, most)
    bounded = replace(operation.selection, up_to=operation.cut_off)
    return _chunk_of(tx, _next_selected(bounded, operation.cursor, most), operation, most)


@reading
def find_first(tx: Transaction, selection: Selection, most: int) -> Sequence[str]:
    """Return the ids of the first messages, at most so many. Raises DatabaseUnavailable."""
    return [row.unique_message_id for row in tx.execute(_next_selected(selection, 0, most))]


def count_matches(tx: Transaction, selection: Selection) -> int:
    """Return how many messages match now."""
    query = select(func.count()).select_from(failed_messages).where(*conditions(selection))
    return int(tx.execute(query).scalar_one())


def _chunk_of(
    tx: Transaction, query: Select[str, int], operation: ArchiveOperation, most: int
) -> ArchiveChunk:
    rows = tx.execute(query).all()
    return ArchiveChunk(
        unique_ids=tuple(row.unique_message_id for row in rows),
        cursor=rows[-1].place if rows else operation.cursor,
        is_last=len(rows) < most,
    )


def _next_named(operation: ArchiveOperation, most: int) -> Select[str, int]:
    return (
        select(named.unique_message_id, named.position.label("place"))
        .where(named.operation_id == operation.operation_id, named.position > operation.cursor)
        .order_by(named.position)
        .limit(most)
    )


def _next_selected(selection: Selection, after: int, most: int) -> Select[str, int]:
    """Walk what is unresolved by failure number: there are indexes for it, as for cuts.

    Everything else goes by number, so that all chunks together read the table once.
    """
    place = messages.failure_seq if selection.statuses == _UNRESOLVED else messages.number
    return (
        select(messages.unique_message_id, place.label("place"))
        .where(place > after, *conditions(selection))
        .order_by(place)
        .limit(most)
    )
