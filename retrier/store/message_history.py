"""What happened to one message, as one SQL query over all tables that tell of it, and in words.

Each thing is told once: the end of a retry is left out where the failure, or the event log's entry
of the same transaction, tells it with more words.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import IntEnum
from typing import Any

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Select,
    String,
    Table,
    Text,
    and_,
    cast,
    exists,
    func,
    literal,
    null,
    or_,
    select,
    union,
    union_all,
)

from retrier.domain.failed_message import FailedMessageStatus, Resolution, RetryEnd
from retrier.domain.identity import canonical
from retrier.domain.retry_operation import STANDING_OPERATION
from retrier.domain.text import ids_beginning
from retrier.domain.values import dataclass
from retrier.domain.wire import PropertyCodec
from retrier.store.attempts import ShownAttempt, attempts_named, find_row
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.event_log import LoggedEvent, events_named, find_bulk_acts
from retrier.store.message_lists import Page, PageRequest
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
events = event_log.c


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


LOOKED_AT = 100_000
"""So many of the newest events are looked at: no index knows the ids of failed imports."""

_IMPORT_ENDS = ("import_sent", "import_deleted", "import_read_again")


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerImport:
    """The event by which a failed import became something else, or nothing."""

    text: str
    at: datetime
    who: str
    unique_message_id: str | None


@reading
def find_former_import(tx: Transaction, text: str) -> FormerImport | None:
    """Return what became of the import whose id begins with the text, the last one if several.

    None if the newest events do not say it. Raises DatabaseUnavailable.
    """
    if ids_beginning(text) is None:
        return None
    newest = select(func.max(events.event_id)).scalar_subquery()
    query = (
        select(events.text, events.at, events.who, events.unique_message_id)
        .where(events.event_id > newest - LOOKED_AT, events.kind.in_(_IMPORT_ENDS))
        .where(events.text.startswith(f"The failed import {canonical(text)}", autoescape=True))
        .order_by(events.event_id.desc())
        .limit(1)
    )
    row = tx.execute(query).mappings().one_or_none()
    return None if row is None else FormerImport(**row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Who asked for an operation, and why; its name in lists."""

    originator: str
    requested_by: str
    why: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine:
    """One thing that happened to a message, with the row that tells it."""

    at: datetime
    step: Step
    retry_id: str | None
    operation_id: str | None
    outcome: RetryEnd | None
    request: Request | None
    attempt: ShownAttempt | None
    event: LoggedEvent | None

    @property
    def failed_earlier(self) -> datetime | None:
        """When it failed, if its headers say another second than that in which it was taken off."""
        said = None if self.attempt is None else self.attempt.time_of_failure
        if said is None or said.replace(microsecond=0) == self.at.replace(microsecond=0):
            return None
        return said


@reading
def find_history(
    tx: Transaction,
    unique_message_id: str,
    page: PageRequest,
    codec: PropertyCodec,
    *,
    descending: bool = False,
) -> Page[HistoryLine] | None:
    """Return one page of what happened to a message, the oldest first; None if there is no such.

    Raises DatabaseUnavailable.
    """
    message = find_row(tx, unique_message_id)
    if message is None:
        return None
    number = message["number"]
    lines = lines_of(number, message["unique_message_id"], find_bulk_acts(tx, number))
    keys = (lines.c.at, lines.c.step, lines.c.ref, lines.c.operation_id)
    order = [key.desc() for key in keys] if descending else keys
    query = select(lines).order_by(*order).limit(page.size).offset(page.offset)
    total = tx.execute(select(func.count()).select_from(lines)).scalar_one()
    rows = [dict(row) for row in tx.execute(query).mappings()]
    return Page(items=tuple(_tell(tx, rows, message, codec)), total=total)


_ASKING = frozenset({Step.ASKED, Step.ARCHIVED})


def _tell(
    tx: Transaction,
    rows: Sequence[Mapping[str, Any]],
    message: Mapping[str, Any],
    codec: PropertyCodec,
) -> Iterator[HistoryLine]:
    """Look up what the lines of a page refer to, all of one kind at once."""
    attempts = attempts_named(tx, message, _refs(rows, Step.FAILED), codec)
    events = events_named(tx, _refs(rows, Step.LOGGED))
    requests = _find_requests(tx, retry_operations, rows, Step.ASKED)
    requests |= _find_requests(tx, archive_operations, rows, Step.ARCHIVED)
    for row in rows:
        step = Step(row["step"])
        yield HistoryLine(
            at=row["at"],
            step=step,
            retry_id=row["retry_id"],
            operation_id=row["operation_id"],
            outcome=RetryEnd(row["outcome"]) if row["outcome"] else None,
            # Who asked for a retry did not confirm it: only the line that tells of asking names them.
            request=requests.get(row["operation_id"]) if step in _ASKING else None,
            attempt=attempts.get(row["ref"]) if step is Step.FAILED else None,
            event=events.get(row["ref"]) if step is Step.LOGGED else None,
        )


def _refs(rows: Sequence[Mapping[str, Any]], step: Step) -> list[int]:
    return [row["ref"] for row in rows if row["step"] == step]


def _find_requests(
    tx: Transaction, table: Table, rows: Sequence[Mapping[str, Any]], step: Step
) -> dict[str, Request]:
    ids = sorted({row["operation_id"] for row in rows if row["step"] == step})
    columns = table.c
    wanted = (columns.operation_id, columns.originator, columns.requested_by, columns.why)
    query = select(*wanted).where(tx.sql.member(columns.operation_id, ids))
    return {
        key: Request(originator=name, requested_by=who, why=why)
        for key, name, who, why in tx.execute(query)
    }


_STEPS = {
    Step.ASKED: ("retry_asked", "A retry was asked for: {request}."),
    Step.CLAIMED: ("claimed", "A batch has claimed it."),
    Step.SENDING: ("sending", "Its retry is being sent: from now on the broker may have it."),
    Step.SENT: ("sent", "The broker has its retry."),
    Step.CONFIRMED: ("confirmed", "A consumer confirmed that it was handled."),
    Step.ARCHIVED: ("archived", "It was archived together with others: {request}."),
}
_ENDS = {
    RetryEnd.FAILED: ("retry_failed", "Its retry failed."),
    RetryEnd.CONFIRMED: ("confirmed", "A consumer confirmed that its retry was handled."),
    RetryEnd.RESOLVED: ("resolved", "A person resolved it."),
    RetryEnd.RELEASED: ("released", "A person stopped waiting for the outcome of its retry."),
    RetryEnd.REVERTED: ("retry_returned", "Its retry could not be sent: it is unresolved again."),
    RetryEnd.EDITED: ("edited", "An edited version of it was sent in its place."),
    RetryEnd.PRESUMED: ("presumed", "Its retry was sent long ago and did not come back."),
}


def put_into_words(told: HistoryLine) -> tuple[str, str]:
    """Return what happened: its kind for programs, and a sentence for people."""
    if told.event is not None:
        return told.event.kind, told.event.text
    if told.attempt is not None:
        return "failed", _failure(told.attempt)
    if told.outcome is not None:
        return _ENDS[told.outcome]
    kind, text = _STEPS[told.step]
    return kind, text.format(request=_name(told.request))


def _name(request: Request | None) -> str:
    return request.originator if request else "by an operation that is deleted"


def _failure(failed: ShownAttempt) -> str:
    """Say where it failed and why, and what was decided."""
    again = "Its retry failed" if failed.retry_id else "It failed"
    parts = (failed.exception_type, failed.exception_message or failed.failure_reason)
    why = ": ".join(part for part in parts if part)
    said = failed.disposition_reason
    words = f"{failed.disposition}: {said}" if failed.disposition else said
    decided = f" ({words})" if said else ""
    return f"{again} on {failed.queue}{': ' if why else ''}{why}{decided}"
