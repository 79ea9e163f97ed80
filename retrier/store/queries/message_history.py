"""The history of one message: what happened to it, by time, with what is known of each thing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Table, func, select

from retrier.domain.failed_message import RetryEnd
from retrier.domain.wire import PropertyCodec
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.attempts import ShownAttempt, attempts_named, find_row
from retrier.store.queries.bulk_acts import find_bulk_acts
from retrier.store.queries.event_log import LoggedEvent, events_named
from retrier.store.queries.history_lines import Step, lines_of
from retrier.store.queries.ordering import Page, PageRequest
from retrier.store.schema import archive_operations, retry_operations


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


def _tell(
    tx: Transaction,
    rows: Sequence[Mapping[str, Any]],
    message: Mapping[str, Any],
    codec: PropertyCodec,
) -> Iterator[HistoryLine]:
    """Look up what the lines of a page refer to, all of one kind at once."""
    attempts = attempts_named(tx, message, _refs(rows, Step.FAILED), codec)
    events = events_named(tx, _refs(rows, Step.LOGGED))
    requests = _requests(tx, retry_operations, rows, Step.ASKED)
    requests |= _requests(tx, archive_operations, rows, Step.ARCHIVED)
    for row in rows:
        step = Step(row["step"])
        yield HistoryLine(
            at=row["at"],
            step=step,
            retry_id=row["retry_id"],
            operation_id=row["operation_id"],
            outcome=RetryEnd(row["outcome"]) if row["outcome"] else None,
            request=requests.get(row["operation_id"]),
            attempt=attempts.get(row["ref"]) if step is Step.FAILED else None,
            event=events.get(row["ref"]) if step is Step.LOGGED else None,
        )


def _refs(rows: Sequence[Mapping[str, Any]], step: Step) -> list[int]:
    return [row["ref"] for row in rows if row["step"] == step]


def _requests(
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
