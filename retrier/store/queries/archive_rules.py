"""The rules for archive operations, each with the query for the rows that break it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sqlalchemy import ColumnElement, Select, exists, func, or_, select

from retrier.domain.archive_operation import Act, ArchiveOperationState
from retrier.domain.failed_message import FailedMessageStatus
from retrier.store.schema import archive_operations, failed_messages

messages = failed_messages.c
operations = archive_operations.c


def _archived_by_none() -> Select[str]:
    known = exists().where(
        operations.operation_id == messages.archive_operation_id, operations.act == Act.ARCHIVE
    )
    named = messages.archive_operation_id.is_not(None)
    return select(messages.unique_message_id).where(named, ~known)


def _taking_more_than_counted() -> Select[str]:
    taken = (
        select(func.count())
        .where(messages.archive_operation_id == operations.operation_id)
        .correlate(archive_operations)
        .scalar_subquery()
    )
    return select(operations.operation_id).where(taken > operations.done)


def _keeping_though_not_archived() -> Select[str]:
    keeps = messages.archived_disposition.is_not(None)
    archived = messages.status == FailedMessageStatus.ARCHIVED
    return select(messages.unique_message_id).where(keeps, ~archived)


def _counting_wrong() -> Select[str]:
    completed = operations.state == ArchiveOperationState.COMPLETED
    settled = _settled()
    wrong = or_(settled > operations.total, completed & (settled != operations.total))
    return select(operations.operation_id).where(wrong)


def _begun_though_waiting() -> Select[str]:
    waiting = operations.state == ArchiveOperationState.WAITING
    begun = or_(operations.cursor > 0, _settled() > 0, operations.started_at.is_not(None))
    return select(operations.operation_id).where(waiting, begun)


def _settled() -> ColumnElement[int]:
    return operations.done + operations.skipped


ARCHIVE_RULES: Mapping[str, Select[Any]] = MappingProxyType(
    {
        "a message that an operation archived names one that is there and archives": (
            _archived_by_none()
        ),
        "no more messages name an archive operation than it has changed": (
            _taking_more_than_counted()
        ),
        "only an archived message keeps what was decided about it before": (
            _keeping_though_not_archived()
        ),
        "the counts of an archive operation add up to its total when it is completed": (
            _counting_wrong()
        ),
        "an archive operation that waits has done nothing": _begun_though_waiting(),
    }
)
"""Each query returns the ids of the rows that break the rule."""
