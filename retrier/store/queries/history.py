"""Finished retry operations: the last ones, and those that a person has to acknowledge."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlalchemy import select

from retrier.domain.identity import canonical, is_guid
from retrier.domain.retry_operation import RetryOperation, RetryType
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.operations import operation_from_row
from retrier.store.queries.selections import Condition
from retrier.store.schema import retry_operations

columns = retry_operations.c

DEPTH = 10
"""Historic operations that are shown (ServiceControl: RetryHistoryDepth)."""

MOST_FINISHED = 200
"""Finished operations that are looked at, the newest ones."""

_UNSEEN_TYPES = (RetryType.SINGLE_MESSAGE, RetryType.MULTIPLE_MESSAGES)
"""Nobody has to acknowledge these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The last operations that are over; of each request the last one that nobody has seen."""

    historic: tuple[RetryOperation, ...]
    unacknowledged: tuple[RetryOperation, ...]


@reading
def read_history(tx: Transaction) -> History:
    """Return the history, newest first. Raises DatabaseUnavailable."""
    seen_by_nobody = (
        columns.acknowledged_at.is_(None),
        columns.retry_type.not_in(_UNSEEN_TYPES),
    )
    unseen = _finished(tx, MOST_FINISHED, *seen_by_nobody)
    return History(
        historic=tuple(_finished(tx, DEPTH)), unacknowledged=tuple(_newest_of_each(unseen))
    )


def finished_of_groups(tx: Transaction) -> dict[str, RetryOperation]:
    """Return the last finished retry of each group, by the group's id."""
    newest_last = [*_finished(tx, MOST_FINISHED, _of_group())][::-1]
    return {group: each for each in newest_last if (group := group_of(each)) is not None}


def find_unacknowledged(tx: Transaction, group_id: str) -> list[str]:
    """Return the ids of a group's finished retries that nobody has acknowledged."""
    unseen = _finished(tx, None, _of_group(), columns.acknowledged_at.is_(None))
    wanted = canonical(group_id)
    return [each.operation_id for each in unseen if group_of(each) == wanted]


def find_unacknowledged_like(tx: Transaction, operation_id: str) -> list[str]:
    """Return the ids of finished retries that asked for the same, and that nobody has acknowledged."""
    if not is_guid(operation_id):
        return []
    row = (
        tx.execute(select(retry_operations).where(columns.operation_id == canonical(operation_id)))
        .mappings()
        .one_or_none()
    )
    if row is None:
        return []
    asked = operation_from_row(dict(row))
    if asked.selection.ids is not None:
        # The ids have rows of their own, so that two lists of ids cannot be told apart here.
        ended = asked.completed_at is not None and asked.acknowledged_at is None
        return [asked.operation_id] if ended else []
    alike = (columns.retry_type == asked.retry_type, columns.acknowledged_at.is_(None))
    unseen = _finished(tx, None, *alike)
    return [each.operation_id for each in unseen if each.selection == asked.selection]


def group_of(operation: RetryOperation) -> str | None:
    """Return the id of the group that was retried; None if it was something else."""
    group = operation.selection.group
    return canonical(group) if group is not None and is_guid(group) else None


def _of_group() -> Condition:
    return columns.retry_type == RetryType.FAILURE_GROUP


def _finished(tx: Transaction, most: int | None, *found: Condition) -> Iterator[RetryOperation]:
    query = (
        select(retry_operations)
        .where(columns.completed_at.is_not(None), *found)
        .order_by(columns.completed_at.desc(), columns.operation_id)
        .limit(most)
    )
    return (operation_from_row(dict(row)) for row in tx.execute(query).mappings())


def _newest_of_each(operations: Iterable[RetryOperation]) -> Iterator[RetryOperation]:
    known = set()
    for each in operations:
        request = (each.retry_type, each.selection)
        if request not in known:
            known.add(request)
            yield each
