"""What happened to one message, as one SQL query over all tables that tell of it.

Each thing is told once: the end of a retry is left out where the failure, or the event log's entry
of the same transaction, tells it with more words.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Select,
    String,
    Text,
    and_,
    cast,
    exists,
    literal,
    null,
    or_,
    select,
    union,
    union_all,
)

from retrier.domain.failed_message import FailedMessageStatus, Resolution, RetryEnd
from retrier.domain.retry_operation import STANDING_OPERATION
from retrier.store.queries.event_log import LoggedEvent
from retrier.store.schema import (
    archive_operations,
    ended_retries,
    event_log,
    failed_message_retries,
    failed_messages,
    processing_attempts,
    retry_batches,
    retry_operations,
)
from retrier.store.schema.types import Id, Number

messages = failed_messages.c
attempts = processing_attempts.c
claims = failed_message_retries.c
ended = ended_retries.c


class Step(IntEnum):
    """What a line tells. Of two lines with the same time the lower one comes first."""

    FAILED = 1
    ASKED = 2
    CLAIMED = 3
    SENDING = 4
    SENT = 5
    ENDED = 6
    LOGGED = 7
    CONFIRMED = 8
    ARCHIVED = 9


Column = ColumnElement[Any]


def lines_of(number: int, unique_message_id: str, bulk: Sequence[LoggedEvent]) -> FromClause:
    """Return the lines of a message: at, step, ref, retry_id, operation_id, outcome.

    `bulk` has the events of acts on many messages that changed it: they do not name it.
    """
    return union_all(
        _failures(number),
        _requests(number),
        _claimed(number),
        *_stamps(failed_message_retries, number),
        *_stamps(ended_retries, number),
        _ends(number, unique_message_id),
        _logged(unique_message_id, [each.event_id for each in bulk]),
        _confirmation(number),
        _archived(number, sorted({each.operation_id for each in bulk if each.operation_id})),
    ).subquery()


def _line(
    at: Column,
    step: Step,
    *,
    ref: Column | None = None,
    retry: Column | None = None,
    operation: Column | None = None,
    outcome: Column | None = None,
) -> Select[Any]:
    """Return the select of lines of one kind; all have the same columns, as a union wants it."""
    return select(
        at.label("at"),
        literal(int(step)).label("step"),
        (cast(null(), Number) if ref is None else ref).label("ref"),
        # Text: a failure names a retry in the words of its consumer, which need not be an id.
        cast(null() if retry is None else retry, Text).label("retry_id"),
        (cast(null(), Id) if operation is None else operation).label("operation_id"),
        (cast(null(), String) if outcome is None else outcome).label("outcome"),
    )


def _failures(number: int) -> Select[Any]:
    line = _line(
        attempts.received_at, Step.FAILED, ref=attempts.attempt_id, retry=attempts.retry_id
    )
    return line.where(attempts.number == number)


def _requests(number: int) -> Select[Any]:
    """Tell when the retries were asked for that have or had a claim on the message.

    Nobody asks for what a policy retries: the standing operation is often older than the message.
    """
    named = union(
        select(claims.operation_id).where(claims.number == number),
        select(ended.operation_id).where(ended.number == number),
    )
    operations = retry_operations.c
    line = _line(operations.created_at, Step.ASKED, operation=operations.operation_id)
    is_asked = operations.operation_id != STANDING_OPERATION
    return line.where(operations.operation_id.in_(named), is_asked)


def _claimed(number: int) -> Select[Any]:
    """Tell since when a batch that is alive has the message."""
    batches = retry_batches.c
    line = _line(
        batches.created_at, Step.CLAIMED, retry=claims.retry_id, operation=claims.operation_id
    )
    return line.where(claims.number == number, batches.batch_id == claims.batch_id)


def _stamps(table: FromClause, number: int) -> tuple[Select[Any], Select[Any]]:
    """Tell when a retry was about to be sent, and when the broker had it."""
    retry = table.c

    def told(at: Column, step: Step) -> Select[Any]:
        line = _line(at, step, retry=retry.retry_id, operation=retry.operation_id)
        return line.where(retry.number == number, at.is_not(None))

    return told(retry.sending_since, Step.SENDING), told(retry.forwarded_at, Step.SENT)


def _ends(number: int, unique_message_id: str) -> Select[Any]:
    failed = exists().where(
        attempts.number == number, attempts.retry_id == cast(ended.retry_id, Text)
    )
    logged = exists().where(
        event_log.c.unique_message_id == unique_message_id, event_log.c.at == ended.ended_at
    )
    line = _line(
        ended.ended_at,
        Step.ENDED,
        retry=ended.retry_id,
        operation=ended.operation_id,
        outcome=ended.outcome,
    )
    told = or_(and_(ended.outcome == RetryEnd.FAILED, failed), logged)
    return line.where(ended.number == number, ~told)


def _logged(unique_message_id: str, bulk: Sequence[int]) -> Select[Any]:
    events = event_log.c
    line = _line(events.at, Step.LOGGED, ref=events.event_id, operation=events.operation_id)
    named = events.unique_message_id == unique_message_id
    return line.where(or_(named, events.event_id.in_(bulk)))


def _confirmation(number: int) -> Select[Any]:
    """Tell of a confirmation that ended no retry: without a claim, or long after a presumption."""
    confirmed = exists().where(ended.number == number, ended.outcome == RetryEnd.CONFIRMED)
    line = _line(messages.last_modified, Step.CONFIRMED)
    return line.where(
        messages.number == number,
        messages.status == FailedMessageStatus.RESOLVED,
        messages.resolution == Resolution.CONFIRMED,
        ~confirmed,
    )


def _archived(number: int, told: Sequence[str]) -> Select[Any]:
    """Tell which operation archived it, as long as it is archived; not if an event tells it."""
    acts = archive_operations.c
    line = _line(messages.last_modified, Step.ARCHIVED, operation=acts.operation_id)
    return line.where(
        messages.number == number,
        messages.status == FailedMessageStatus.ARCHIVED,
        acts.operation_id == messages.archive_operation_id,
        acts.operation_id.not_in(told),
    )
