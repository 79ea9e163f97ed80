"""What the notices of dead messages say, read in the transaction in which they became dead."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select

from retrier.domain import headers
from retrier.domain.classifiers import CLASSIFIERS
from retrier.domain.copies import DeadMessage
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.schema import (
    cause_groups,
    causes,
    failed_messages,
    failure_groups,
    processing_attempts,
)

messages = failed_messages.c
attempts = processing_attempts.c
groups = failure_groups.c

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
