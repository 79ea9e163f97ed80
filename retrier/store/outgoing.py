"""Copies and notices to be sent (`outgoing`): a row for each, until it is sent.

Settling is not fenced by the lease: what the broker has confirmed is sent, whoever is the processor
by now. With a fence the next processor would send it again.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import bindparam, func, or_, select

from retrier.domain import headers
from retrier.domain.classifiers import CLASSIFIERS
from retrier.domain.copies import NOTICE_ID, DeadMessage
from retrier.domain.recording import Attempt
from retrier.domain.values import dataclass
from retrier.domain.wire import PropertyCodec
from retrier.store.engine.database import reading, writing
from retrier.store.engine.sql_dialect import IN_BINARY
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.event_log import short
from retrier.store.message_lists import SOURCES, texts_of
from retrier.store.schema import (
    cause_groups,
    causes,
    failed_messages,
    failure_groups,
    outgoing,
    processing_attempts,
)

messages = failed_messages.c
attempts = processing_attempts.c
groups = failure_groups.c
waiting = outgoing.c


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


def find_messages(tx: Transaction, numbers: Sequence[int]) -> frozenset[int]:
    """Return the numbers of those of these messages that have a copy to be sent."""
    query = select(outgoing.c.number).where(tx.sql.member(outgoing.c.number, numbers))
    return frozenset(tx.execute(query).scalars())


_NOTICE_ID = headers.NOTICE_ID.encode()
"""Both codecs write the name of a header as it is."""

_PLAIN = (
    messages.message_id,
    causes.c.queue,
    causes.c.endpoint,
    causes.c.message_type,
    causes.c.exception_type,
    causes.c.failure_reason,
    messages.reason,
    messages.disposition_reason,
    messages.policy,
    messages.attempts,
    messages.failure_count,
)
_TIMES = (messages.time_sent, messages.first_failure, messages.last_failure)

_TITLED = (
    select(cause_groups.c.cause_id, groups.group_id, groups.title)
    .join_from(cause_groups, failure_groups, groups.group_id == cause_groups.c.group_id)
    .where(groups.classifier == CLASSIFIERS[0])
    .subquery()
)


def describe_dead(
    tx: Transaction, dead: Sequence[DeadMessage]
) -> Sequence[tuple[DeadMessage, dict[str, object]]]:
    """Return the dead messages, each with what is to be told of it; their rows must be written.

    Left out is one whose failure is a notice that failed: its notice could fail in the same way.
    """
    by_attempt = {each.attempt_id: each for each in dead}
    query = (
        select(
            messages.unique_message_id,
            *_PLAIN,
            *_TIMES,
            _TITLED.c.group_id,
            _TITLED.c.title,
            attempts.attempt_id,
            attempts.raw_properties,
        )
        .join_from(failed_messages, processing_attempts, attempts.number == messages.number)
        .join(causes, causes.c.cause_id == attempts.cause_id)
        .outerjoin(_TITLED, _TITLED.c.cause_id == causes.c.cause_id)
        .where(
            tx.sql.member(messages.number, [each.number for each in dead]),
            tx.sql.member(attempts.attempt_id, sorted(by_attempt)),
        )
        .order_by(messages.number)
    )
    return [
        (by_attempt[row.attempt_id], _describe(row, tx.now))
        for row in tx.execute(query)
        if _NOTICE_ID not in bytes(row.raw_properties)
    ]


def _describe(row: StoredRow, now: datetime) -> dict[str, object]:
    found: dict[str, Any] = row._asdict()
    told = {
        "id": found["unique_message_id"],
        **{column.name: found[column.name] for column in _PLAIN},
        "friendly_name": found["title"],
        "group_id": found["group_id"],
        **{column.name: _time(found[column.name]) for column in _TIMES},
        "dead_since": _time(now),
        "link": f"/api/errors/{found['unique_message_id']}",
    }
    return {name: value for name, value in told.items() if value is not None}


def _time(moment: datetime | None) -> str | None:
    if moment is None:
        return None
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


_LONGEST = timedelta(minutes=5)
"""Longer than any copy is put off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingCopy:
    """A copy to be sent, or a notice. `size` counts the bytes of the failure's properties and body.

    `unique_message_id` is None if somebody deleted the message. `put_off` says that the copy was
    refused before. `notice` is what the notice of a dead message says; None for a copy.
    """

    outgoing_id: int
    attempt_id: int
    queue: str
    unique_message_id: str | None
    size: int
    put_off: bool
    notice: Mapping[str, object] | None = None


@reading
def find_outgoing(
    tx: Transaction, limit: int, without: Collection[str] = ()
) -> tuple[WaitingCopy, ...]:
    """Return the oldest copies that are due, without those to the queues of `without`.

    Raises DatabaseUnavailable.
    """
    due = or_(
        waiting.not_before.is_(None),
        waiting.not_before <= tx.now,
        # Nothing is put off for that long: the clock was set back.
        waiting.not_before > tx.now + _LONGEST,
    )
    # The limit comes before the joins: what is joined is then found by its keys, however many wait.
    first = select(outgoing).where(due).order_by(waiting.outgoing_id).limit(limit)
    if without:
        first = first.where(waiting.queue.not_in(without))
    rows = first.subquery().c
    holder = processing_attempts.alias().c
    size = func.length(attempts.raw_properties) + func.length(
        func.coalesce(attempts.body, holder.body)
    )
    query = (
        select(
            rows.outgoing_id,
            rows.attempt_id,
            rows.queue,
            messages.unique_message_id,
            func.coalesce(size, 0).label("size"),
            rows.reason.is_not(None).label("put_off"),
            rows.notice,
        )
        .select_from(rows.outgoing_id.table)
        .outerjoin(failed_messages, messages.number == rows.number)
        .outerjoin(processing_attempts, attempts.attempt_id == rows.attempt_id)
        .outerjoin(holder.attempt_id.table, holder.attempt_id == attempts.same_body_as)
        .order_by(rows.outgoing_id)
    )
    return tuple(WaitingCopy(**row) for row in tx.execute(query).mappings())


@reading
def load_contents(tx: Transaction, attempt_ids: Sequence[int]) -> Mapping[int, tuple[bytes, bytes]]:
    """Return properties and body of these attempts; those that were deleted are left out.

    Raises DatabaseUnavailable.
    """
    holder = processing_attempts.alias()
    body = func.coalesce(attempts.body, holder.c.body)
    query = (
        select(attempts.attempt_id, attempts.raw_properties, body)
        .outerjoin_from(processing_attempts, holder, holder.c.attempt_id == attempts.same_body_as)
        .where(tx.sql.member(attempts.attempt_id, attempt_ids), body.is_not(None))
        .execution_options(**{IN_BINARY: True})
    )
    return {row[0]: (bytes(row[1]), bytes(row[2])) for row in tx.execute(query)}


@reading
def load_exceptions(
    tx: Transaction, attempt_ids: Sequence[int], codec: PropertyCodec
) -> Mapping[int, str | None]:
    """Return the message of the exception of each of these attempts; deleted ones are left out.

    Raises DatabaseUnavailable.
    """
    query = (
        select(attempts.attempt_id, *SOURCES)
        .join_from(processing_attempts, causes, causes.c.cause_id == attempts.cause_id)
        .where(tx.sql.member(attempts.attempt_id, attempt_ids))
    )
    rows = tx.execute(query).mappings()
    return {row["attempt_id"]: texts_of(dict(row), codec).exception_message for row in rows}


@reading
def is_any_outgoing(tx: Transaction) -> bool:
    """Say whether any copy waits to be sent. Raises DatabaseUnavailable."""
    return tx.execute(select(waiting.outgoing_id).limit(1)).first() is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingCounts:
    """How many copies and notices wait to be sent to a queue, since when, and why not sooner."""

    queue: str
    is_notice: bool
    count: int
    oldest: datetime
    reason: str | None


@reading
def count_outgoing(tx: Transaction) -> tuple[OutgoingCounts, ...]:
    """Count what waits to be sent, by queue. Raises DatabaseUnavailable."""
    is_notice = waiting.notice.is_not(None).label("is_notice")
    query = (
        select(
            waiting.queue,
            is_notice,
            func.count().label("count"),
            func.min(waiting.created_at).label("oldest"),
            func.max(waiting.reason).label("reason"),
        )
        .group_by(waiting.queue, is_notice)
        .order_by(waiting.queue, is_notice)
    )
    rows = tx.execute(query).mappings()
    return tuple(
        OutgoingCounts(**row | {"is_notice": bool(row["is_notice"])}) for row in map(dict, rows)
    )


def add_notices(tx: Transaction, queue: str, dead: Sequence[DeadMessage]) -> None:
    """Have a notice sent to a queue for each message that has become dead in this transaction.

    Part of a larger transaction, to be called after the rows of messages and attempts are written.
    What the notice says, and its id, are written down now: each time it is sent, it is the same.
    """
    rows = [
        {
            "number": of.number,
            "attempt_id": of.attempt_id,
            "queue": queue,
            "created_at": tx.now,
            "notice": {**said, NOTICE_ID: str(uuid4())},
        }
        for of, said in (describe_dead(tx, dead) if dead else ())
    ]
    if rows:
        tx.execute(outgoing.insert(), rows)


@writing
def settle_outgoing(
    tx: Transaction, sent: Sequence[int], refused: Mapping[int, str], wait: timedelta
) -> None:
    """Delete the rows that are sent, and put off those that were refused, with their reasons.

    Raises DatabaseUnavailable.
    """
    if sent:
        tx.execute(outgoing.delete().where(tx.sql.member(waiting.outgoing_id, sent)))
    if refused:
        later = outgoing.update().where(waiting.outgoing_id == bindparam("row"))
        until = tx.now + wait
        values = [{"row": key, "why": short(why), "until": until} for key, why in refused.items()]
        tx.execute(later.values(not_before=bindparam("until"), reason=bindparam("why")), values)
