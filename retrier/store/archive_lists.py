"""Archive operations as people see them, their next chunks, and what they would change."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Select, case, func, select

from retrier.domain.access import NOT_YOURS
from retrier.domain.archive_operation import (
    AT_ONCE,
    Act,
    ActRefusal,
    ArchiveOperation,
    ArchiveOperationState,
    ClaimStage,
    distinct,
    select_for,
    why_not,
)
from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.identity import canonical, is_guid
from retrier.domain.retry_operation import Plan, hash_subject
from retrier.domain.selection import Selection
from retrier.domain.text import IdRange
from retrier.domain.values import dataclass
from retrier.store.engine.database import Database, reading
from retrier.store.engine.transaction import Transaction
from retrier.store.message_lists import Page, PageRequest
from retrier.store.schema import (
    archive_operation_messages,
    archive_operations,
    failed_message_retries,
    failed_messages,
)
from retrier.store.selections import Condition, conditions, from_json, take_cut_off

operations = archive_operations.c
messages = failed_messages.c
named = archive_operation_messages.c
claims = failed_message_retries.c


SHOWN_REFUSED = 1000
"""Named ids that were left as they were, shown with their reasons, at most."""

OPEN = (ArchiveOperationState.WAITING, ArchiveOperationState.RUNNING)
"""The states in which there is something to do."""

_TURNED = ("act", "selection", "state", "idempotency_key", "request_hash")
"""Columns that are turned into values, or are not shown."""
_PLAIN = tuple(column.name for column in operations if column.name not in _TURNED)


@reading
def list_archive_operations(
    tx: Transaction, page: PageRequest, ids: IdRange | None = None
) -> Page[ArchiveOperation]:
    """Return one page of all archive operations, newest first, or of those in a range of ids.

    Raises DatabaseUnavailable.
    """
    wanted = [operations.operation_id.between(ids.first, ids.last)] if ids else []
    keys = (operations.created_at, operations.operation_id)
    total = page.count(tx, select(func.count()).select_from(archive_operations).where(*wanted))
    query = (
        select(archive_operations)
        .where(*wanted, *page.behind(*keys, descending=True))
        .order_by(*(key.desc() for key in keys))
        .limit(page.size)
        .offset(page.offset)
    )
    items = tuple(archive_from_row(dict(row)) for row in tx.execute(query).mappings())
    place = page.next_place(total, items, lambda last: [last.created_at, last.operation_id])
    return Page(items=items, total=total, next=place)


@reading
def find_archive_operation(tx: Transaction, operation_id: str) -> ArchiveOperation | None:
    """Return the archive operation with that id, or None. Raises DatabaseUnavailable."""
    if not is_guid(operation_id):
        return None
    query = select(archive_operations).where(operations.operation_id == canonical(operation_id))
    row = tx.execute(query).mappings().one_or_none()
    return None if row is None else archive_from_row(dict(row))


@reading
def find_refused(tx: Transaction, operation_id: str) -> Mapping[str, str]:
    """Return why named ids were left as they were, the first 1000. Raises DatabaseUnavailable."""
    query = (
        select(named.unique_message_id, named.refused_because)
        .where(named.operation_id == operation_id, named.refused_because.is_not(None))
        .order_by(named.position)
        .limit(SHOWN_REFUSED)
    )
    return {row.unique_message_id: row.refused_because for row in tx.execute(query)}


@reading
def list_open_archives(tx: Transaction, most: int) -> tuple[ArchiveOperation, ...]:
    """Return archive operations that are not completed, the oldest first.

    Raises DatabaseUnavailable.
    """
    query = (
        select(archive_operations)
        .where(operations.state.in_(OPEN))
        .order_by(operations.created_at, operations.operation_id)
        .limit(most)
    )
    return tuple(archive_from_row(dict(row)) for row in tx.execute(query).mappings())


@reading
def find_next_archive(tx: Transaction) -> ArchiveOperation | None:
    """Return the oldest archive operation that is not completed. Raises DatabaseUnavailable."""
    query = (
        select(archive_operations)
        .where(operations.state.in_(OPEN))
        .order_by(operations.created_at, operations.operation_id)
        .limit(1)
    )
    row = tx.execute(query).mappings().first()
    return None if row is None else archive_from_row(dict(row))


@reading
def is_any_open(tx: Transaction, act: Act) -> bool:
    """Say whether an operation with this act is not completed. Raises DatabaseUnavailable."""
    one = (
        select(operations.operation_id)
        .where(operations.state.in_(OPEN), operations.act == act)
        .limit(1)
    )
    return tx.execute(one).first() is not None


def archive_from_row(row: Mapping[str, Any]) -> ArchiveOperation:
    """Return a row of archive_operations as an ArchiveOperation."""
    act = Act(row["act"])
    return ArchiveOperation(
        **{name: row[name] for name in _PLAIN},
        act=act,
        selection=select_for(act, _selection(row["selection"])),
        state=ArchiveOperationState(row["state"]),
    )


def _selection(parts: Mapping[str, Any]) -> Selection:
    sent, modified = parts.get("sent_before"), None
    if "modified_from" in parts:
        first, last = parts["modified_from"], parts["modified_to"]
        modified = (datetime.fromisoformat(first), datetime.fromisoformat(last))
    return replace(
        from_json(parts),
        modified=modified,
        pending=bool(parts.get("pending")),
        sent_before=None if sent is None else datetime.fromisoformat(sent),
        sent_to=parts.get("sent_to"),
    )


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


_STAGE = case(
    (claims.number.is_(None), ClaimStage.NONE.name),
    (claims.forwarded_at.is_not(None), ClaimStage.SENT.name),
    (claims.sending_since.is_(None), ClaimStage.CLAIMED.name),
    else_=ClaimStage.BEING_SENT.name,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePreview:
    """How many messages would change, and for each reason how many would not."""

    total: int
    skipped_because: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAct:
    """What an act would do, and the plan that holds it to that.

    `selection` is what was counted: nothing that comes to match it later.
    """

    preview: ArchivePreview
    plan: Plan
    selection: Selection


def plan_act(db: Database, act: Act, selection: Selection, at: datetime, *more: str) -> PlannedAct:
    """Count what the act would do, and plan it; changes nothing.

    `at` is the time from which the ages in the selection are counted, `more` says what they are.
    The cut-off is taken before: what is on its way into the selection is counted or left out, and
    not in between. Raises DatabaseUnavailable.
    """
    cut_off = take_cut_off(db)
    counted = selection if selection.ids is not None else replace(selection, counted_to=cut_off)
    found = preview_archive(db, act, counted)
    plan = Plan(
        subject=hash_subject(act, selection, *more),
        counted_to=cut_off,
        cut_off=cut_off,
        total=found.total,
        at=at,
    )
    return PlannedAct(preview=found, plan=plan, selection=counted)


@reading
def preview_archive(tx: Transaction, act: Act, selection: Selection) -> ArchivePreview:
    """Count what the act would do now; changes nothing. Raises DatabaseUnavailable."""
    found, unknown = _of(tx, act, selection)
    query = (
        select(messages.status, _STAGE, func.count())
        .outerjoin_from(failed_messages, failed_message_retries, claims.number == messages.number)
        .where(*found)
        .group_by(messages.status, _STAGE)
    )
    counted: Counter[ActRefusal | None] = Counter()
    for status, stage, number in tx.execute(query):
        counted[why_not(act, FailedMessageStatus(status), ClaimStage[stage])] += number
    if unknown:
        counted[ActRefusal.UNKNOWN] = unknown - sum(counted.values())
    because = {str(why): number for why, number in counted.items() if why is not None and number}
    if selection.within is not None and selection.ids is None:
        every, _ = _of(tx, act, replace(selection, within=None))
        elsewhere = select(func.count()).select_from(failed_messages).where(*every)
        foreign = int(tx.execute(elsewhere).scalar_one()) - sum(counted.values())
        because |= {NOT_YOURS: foreign} if foreign else {}
    return ArchivePreview(total=counted[None], skipped_because=because)


def _of(tx: Transaction, act: Act, selection: Selection) -> tuple[list[Condition], int]:
    """Return the conditions, and of named ids how many were named."""
    if selection.ids is None:
        return conditions(select_for(act, selection)), 0
    ids = distinct(selection.ids)
    known = [canonical(each) for each in ids if is_guid(each)]
    return [tx.sql.member(messages.unique_message_id, known)], len(ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedBy:
    """The operation that archived a message: who asked for it, when, and why."""

    operation_id: str
    requested_by: str
    why: str | None
    asked_at: datetime


@reading
def find_archivers(tx: Transaction, unique_ids: Sequence[str]) -> Mapping[str, ArchivedBy]:
    """Return by which operations these messages are archived.

    Left out is what no operation archived, or one that is deleted for its age. Raises
    DatabaseUnavailable.
    """
    query = (
        select(messages.unique_message_id, archive_operations)
        .join_from(
            failed_messages,
            archive_operations,
            operations.operation_id == messages.archive_operation_id,
        )
        .where(tx.sql.member(messages.unique_message_id, unique_ids))
    )
    return {
        row.unique_message_id: ArchivedBy(
            operation_id=row.operation_id,
            requested_by=row.requested_by,
            why=row.why,
            asked_at=row.created_at,
        )
        for row in tx.execute(query)
    }
