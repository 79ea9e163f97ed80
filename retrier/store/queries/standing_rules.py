"""The rules for the standing operation: the one that sends what is due by policy."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sqlalchemy import Select, and_, or_, select

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.retry_operation import STANDING_OPERATION, RetryOperationState, RetryType
from retrier.store.schema import (
    SCHEDULED,
    failed_message_retries,
    failed_messages,
    retry_operations,
)

messages = failed_messages.c
claims = failed_message_retries.c
operations = retry_operations.c

_IS_STANDING = operations.operation_id == STANDING_OPERATION
_OVER = (RetryOperationState.COMPLETED, RetryOperationState.CANCELLED)


def _over_or_another() -> Select[str]:
    by_policy = operations.retry_type == RetryType.BY_POLICY
    ended = or_(operations.state.in_(_OVER), operations.cancel_asked)
    return select(operations.operation_id).where(
        or_(and_(_IS_STANDING, or_(ended, ~by_policy)), and_(by_policy, ~_IS_STANDING))
    )


def _miscounted() -> Select[str]:
    counted = operations.forwarded + operations.skipped + operations.failed
    waiting = operations.state == RetryOperationState.WAITING
    return select(operations.operation_id).where(_IS_STANDING, waiting, counted != operations.total)


def _claimed_unscheduled() -> Select[str]:
    """Whoever ends a schedule gives the message another status or failure number."""
    holds = and_(
        messages.status == FailedMessageStatus.UNRESOLVED,
        messages.failure_seq == claims.failure_seq,
    )
    return (
        select(messages.unique_message_id)
        .join_from(failed_message_retries, failed_messages, messages.number == claims.number)
        .where(claims.operation_id == STANDING_OPERATION, holds, ~SCHEDULED)
    )


STANDING_RULES: Mapping[str, Select[Any]] = MappingProxyType(
    {
        "the standing operation is the only one by policy, and is neither over nor cancelled": (
            _over_or_another()
        ),
        "while nothing is due, the counts of the standing operation add up to its total": (
            _miscounted()
        ),
        "what the standing operation has claimed and not issued yet is scheduled": (
            _claimed_unscheduled()
        ),
    }
)
"""Each query returns the ids of the rows that break the rule."""
