"""The rules for the tables, each with the query for the rows that break it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, exists, func, or_, select

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.retry_batch import RetryBatchStatus
from retrier.domain.retry_operation import CanaryState, RetryOperationState
from retrier.store.queries.archive_rules import ARCHIVE_RULES
from retrier.store.queries.breaker_rules import BREAKER_RULES
from retrier.store.queries.content_rules import CONTENT_RULES
from retrier.store.queries.dead_rules import DEAD_RULES
from retrier.store.queries.policy_rules import POLICY_RULES
from retrier.store.queries.standing_rules import STANDING_RULES
from retrier.store.queries.stream_rules import STREAM_RULES
from retrier.store.schema import (
    failed_message_retries,
    failed_messages,
    retry_batch_now_forwarding,
    retry_batches,
    retry_operation_canaries,
    retry_operations,
)

messages = failed_messages.c


"""Each query returns the ids of the rows that break the rule."""


claims = failed_message_retries.c
batches = retry_batches.c
operations = retry_operations.c
canaries = retry_operation_canaries.c
pointer = retry_batch_now_forwarding.c

_OVER = (RetryOperationState.COMPLETED, RetryOperationState.CANCELLED)
_UNSENT = (RetryBatchStatus.MARKING, RetryBatchStatus.STAGING)
_PENDING = (FailedMessageStatus.UNRESOLVED, FailedMessageStatus.RETRY_ISSUED)


def _issued_without_claim() -> Select[str]:
    own = exists().where(
        claims.number == messages.number,
        claims.retry_id == messages.last_retry_id,
    )
    issued = messages.status == FailedMessageStatus.RETRY_ISSUED
    return select(messages.unique_message_id).where(issued, ~own)


def _claimed_though_settled() -> Select[str]:
    """Marking locks no message: one settled as it is claimed has the claim until Staging."""
    unstamped = and_(batches.status.in_(_UNSENT), claims.sending_since.is_(None))
    dropped = exists().where(batches.batch_id == claims.batch_id, unstamped)
    return _claimed_messages().where(messages.status.not_in(_PENDING), ~dropped)


def _claimed_though_missing() -> Select[int]:
    known = exists().where(messages.number == claims.number)
    return select(claims.number).where(~known)


def _claimed_by_none() -> Select[str]:
    unsent = exists().where(batches.batch_id == claims.batch_id, batches.status.in_(_UNSENT))
    unresolved = messages.status == FailedMessageStatus.UNRESOLVED
    return _claimed_messages().where(unresolved, ~unsent)


def _unrecorded_of_none() -> Select[str]:
    alive = exists().where(batches.batch_id == claims.batch_id)
    return _claimed_messages().where(claims.forwarded_at.is_(None), ~alive)


def _claimed_later() -> Select[str]:
    """A claim has the failure number that its message had then, and a message's only grows."""
    return _claimed_messages().where(claims.failure_seq > messages.failure_seq)


def _sent_while_unsent() -> Select[str]:
    """A rest moved to a new batch keeps its stamps, so in Staging only a record is wrong."""
    stamped = and_(
        batches.status == RetryBatchStatus.MARKING,
        claims.sending_since.is_not(None),
    )
    recorded = and_(batches.status.in_(_UNSENT), claims.forwarded_at.is_not(None))
    return _claims_of_batches().where(or_(stamped, recorded))


def _claims_of_another_operation() -> Select[str]:
    return _claims_of_batches().where(claims.operation_id != batches.operation_id)


def _forwarding_without_pointer() -> Select[str]:
    pointed = exists().where(pointer.batch_id == batches.batch_id)
    forwarding = batches.status == RetryBatchStatus.FORWARDING
    return select(batches.batch_id).where(
        or_(and_(forwarding, ~pointed), and_(~forwarding, pointed))
    )


def _overfull() -> Select[str]:
    number = (
        select(func.count())
        .where(claims.batch_id == batches.batch_id)
        .correlate(retry_batches)
        .scalar_subquery()
    )
    return select(batches.batch_id).where(
        number > func.coalesce(batches.message_count, batches.initial_size)
    )


def _grown() -> Select[str]:
    return select(batches.batch_id).where(batches.message_count > batches.initial_size)


def _of_closed_operation() -> Select[str]:
    over = operations.state.in_(_OVER)
    return (
        select(batches.batch_id)
        .join_from(retry_batches, retry_operations)
        .where(or_(over, operations.state == RetryOperationState.WAITING))
    )


def _counting_too_much() -> Select[str]:
    return select(operations.operation_id).where(_settled() + _unrecorded() > operations.total)


def _unrecorded() -> ColumnElement[int]:
    return (
        select(func.count())
        .where(
            claims.operation_id == operations.operation_id,
            claims.forwarded_at.is_(None),
        )
        .correlate(retry_operations)
        .scalar_subquery()
    )


def _over_with_a_rest() -> Select[str]:
    counted = operations.forwarded + operations.skipped + operations.failed
    return select(operations.operation_id).where(
        operations.state.in_(_OVER), counted != operations.total
    )


def _settled() -> ColumnElement[int]:
    """Count what takes up room: with a limit, others are sent for those that are skipped."""
    limited = and_(operations.message_limit.is_not(None), operations.completed_at.is_(None))
    return operations.forwarded + operations.failed + case((limited, 0), else_=operations.skipped)


def _cancelled_by_nobody() -> Select[str]:
    cancelled = operations.state == RetryOperationState.CANCELLED
    return select(operations.operation_id).where(cancelled, operations.cancel_asked.is_(False))


def _sent_before_the_verdict() -> Select[str]:
    open_ = canaries.state.in_([CanaryState.SENDING, CanaryState.WAITING])
    sent = operations.forwarded + operations.failed + _unrecorded()
    return (
        select(operations.operation_id)
        .join_from(retry_operations, retry_operation_canaries)
        .where(open_, sent > canaries.size)
    )


def _passed_over_for_nothing() -> Select[str]:
    alive = operations.completed_at.is_(None)
    return select(operations.operation_id).where(
        alive, operations.passed_over, operations.left_out == 0
    )


def _acknowledged_too_early() -> Select[str]:
    return select(operations.operation_id).where(
        operations.acknowledged_at.is_not(None), operations.completed_at.is_(None)
    )


def _claimed_messages() -> Select[str]:
    return select(messages.unique_message_id).join_from(
        failed_message_retries, failed_messages, messages.number == claims.number
    )


def _claims_of_batches() -> Select[str]:
    return _claimed_messages().join(retry_batches, batches.batch_id == claims.batch_id)


RULES: Mapping[str, Select[Any]] = MappingProxyType(
    {
        "a message whose retry was issued has the claim of that retry": _issued_without_claim(),
        "a message that is resolved or archived has no claim that could still be sent": (
            _claimed_though_settled()
        ),
        "every claim is of a message that is there": _claimed_though_missing(),
        "a claim was taken at the newest failure of its message, or at an earlier one": (
            _claimed_later()
        ),
        "the claim of an unresolved message is of a batch in Marking or Staging": (
            _claimed_by_none()
        ),
        "a claim without a batch alive is recorded as forwarded": _unrecorded_of_none(),
        "a claim of a batch in Marking is not stamped, and one in Staging is not recorded": (
            _sent_while_unsent()
        ),
        "a claim names the operation of its batch": _claims_of_another_operation(),
        "the batch in Forwarding, and no other, is the one now forwarding": (
            _forwarding_without_pointer()
        ),
        "a batch has no more claims than its size": _overfull(),
        "a batch in Forwarding has no more messages than it was marked with": _grown(),
        "every batch belongs to an operation that is under way": _of_closed_operation(),
        "an operation counts no more messages than it was asked for": _counting_too_much(),
        "the counts of an operation that is over add up to its total": _over_with_a_rest(),
        "an operation is cancelled only if somebody asked for it": _cancelled_by_nobody(),
        "before its canary is judged, an operation sends nothing else": _sent_before_the_verdict(),
        "an operation is passed over only if it left messages out": _passed_over_for_nothing(),
        "only an operation that is over is acknowledged": _acknowledged_too_early(),
        **STANDING_RULES,
        **ARCHIVE_RULES,
        **BREAKER_RULES,
        **POLICY_RULES,
        **CONTENT_RULES,
        **STREAM_RULES,
        **DEAD_RULES,
    }
)
"""Each query returns the ids of the rows that break the rule."""
