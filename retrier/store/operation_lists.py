"""Retry operations as people see them: alive and finished, and what became of their retries."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, func, select

from retrier.domain.approval import ApprovalState
from retrier.domain.failed_message import RetryEnd
from retrier.domain.identity import canonical, is_guid
from retrier.domain.outcomes import OutcomeCounts
from retrier.domain.retry_operation import (
    ALIVE,
    STANDING_OPERATION,
    CanaryState,
    Priority,
    RetryOperation,
    RetryOperationState,
    RetryType,
    RunningCanary,
)
from retrier.domain.schedule import Schedule
from retrier.domain.text import IdRange
from retrier.domain.values import dataclass
from retrier.domain.wait_reasons import CLEAR, Obstacles
from retrier.store.approvals import IN_OPERATIONS, MOST_LISTED, approval_from_row
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.error_queue_reads import find_why_unread
from retrier.store.message_lists import Page, PageRequest
from retrier.store.obstacles import find_obstacles
from retrier.store.schema import (
    approvals,
    ended_retries,
    processing_attempts,
    retry_batches,
    retry_operation_canaries,
    retry_operation_messages,
    retry_operation_outcomes,
    retry_operations,
)
from retrier.store.schema.operations import OUTCOME_COLUMNS
from retrier.store.selections import Condition, from_json
from retrier.store.wait_reasons import find_schedule

ended = ended_retries.c
canaries = retry_operation_canaries.c
attempts = processing_attempts.c
outcomes = retry_operation_outcomes.c
columns = retry_operations.c


def count_back(tx: Transaction, operation: RetryOperation) -> int | None:
    """Count the messages of an operation's canary that came back; None if it has no canary.

    Those that failed again, and those that could not be sent: returned, refused or ejected. Once it
    is judged, those that were counted then.
    """
    canary = operation.canary
    if canary is None:
        return None
    query = select(canaries.retries, canaries.came_back)
    row = tx.execute(query.where(canaries.operation_id == operation.operation_id)).one()
    if canary.state in (CanaryState.PASSED, CanaryState.FAILED):
        return int(row.came_back)
    return operation.failed + _count_failed_again(tx, row.retries)


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryEvidence:
    """What is known of a canary when it is judged. `unread` says why something may be missing."""

    came_back: int
    unread: str | None
    waited_until: datetime


def find_evidence(tx: Transaction, operation: RetryOperation) -> CanaryEvidence:
    """Return what is known of the canary of an operation, which waits for its verdict.

    Confirmations of all that did not come back are enough; else the error queues must have been
    read past the end of the wait: what is not read yet is no success.
    """
    query = select(canaries.retries, canaries.waited_until)
    row = tx.execute(query.where(canaries.operation_id == operation.operation_id)).one()
    back, until = operation.failed + _count_failed_again(tx, row.retries), row.waited_until
    missing = operation.sent - back - _count_confirmed(tx, row.retries)
    unread = find_why_unread(tx, until) if missing > 0 else None
    return CanaryEvidence(came_back=back, unread=unread, waited_until=until)


def _count_confirmed(tx: Transaction, retries: list[tuple[int, str]]) -> int:
    sent = {(int(number), str(retry_id)) for number, retry_id in retries}
    query = select(ended.number, ended.retry_id).where(
        tx.sql.member(ended.number, sorted({number for number, _ in sent})),
        ended.outcome == RetryEnd.CONFIRMED,
    )
    return len(sent & {(row.number, row.retry_id) for row in tx.execute(query)})


def _count_failed_again(tx: Transaction, retries: list[tuple[int, str]]) -> int:
    """Count by retry id: another retry of such a message may have failed, and is not meant.

    A retry failed if its claim ended so, or if a failure names it: a person may have resolved the
    message, or retried it again, before it came back.
    """
    sent = {(int(number), str(retry_id)) for number, retry_id in retries}
    numbers = sorted({number for number, _ in sent})
    ended_so = select(ended.number, ended.retry_id).where(
        tx.sql.member(ended.number, numbers), ended.outcome == RetryEnd.FAILED
    )
    named = select(attempts.number, attempts.retry_id).where(
        tx.sql.member(attempts.number, numbers), attempts.retry_id.is_not(None)
    )
    failed = {
        (row.number, row.retry_id) for query in (ended_so, named) for row in tx.execute(query)
    }
    return len(sent & failed)


SHOWN_SKIPPED = 1000
"""Skipped ids shown with their reasons, at most; `skipped` counts them all."""


_PLAIN = (
    columns.operation_id,
    columns.cut_off,
    columns.floor,
    columns.originator,
    columns.requested_by,
    columns.why,
    columns.total,
    columns.forwarded,
    columns.skipped,
    columns.failed,
    columns.batches,
    columns.left_out,
    columns.dead_left_out,
    columns.destination,
    columns.rate,
    columns.cancel_asked,
    columns.passed_over,
    columns.look_again_at,
    columns.reason,
    columns.not_before,
    columns.next_cut,
    columns.created_at,
    columns.started_at,
    columns.completed_at,
    columns.acknowledged_at,
    columns.modified_at,
)
"""Columns that are shown as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationDetails:
    """An operation, its batch if it has one now, and why named ids were skipped.

    `batch_reason` is why its batch waits. `at` is the database's time of this query, for estimates. `came_back` counts the messages of its
    canary that came back; None if it has none. `schedule` is that of the standing operation.
    """

    operation: RetryOperation
    at: datetime
    batch_id: str | None
    batch_reason: str | None
    skipped: Mapping[str, str]
    came_back: int | None = None
    schedule: Schedule | None = None
    obstacles: Obstacles = CLEAR


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOperations:
    """One page of operations, and the schedule if the standing operation is among them.

    `at` is the database's time, `obstacles` what holds up all of them.
    """

    page: Page[RetryOperation]
    schedule: Schedule | None
    at: datetime
    obstacles: Obstacles


@reading
def list_operations(
    tx: Transaction, page: PageRequest, ids: IdRange | None = None
) -> ListedOperations:
    """Return one page of all operations, newest first, or of those in a range of ids.

    The standing operation comes before all others. Raises DatabaseUnavailable.
    """
    wanted = [columns.operation_id.between(ids.first, ids.last)] if ids else []
    keys = (columns.created_at, columns.operation_id)
    total = page.count(tx, select(func.count()).select_from(retry_operations).where(*wanted))
    is_other = columns.operation_id != STANDING_OPERATION
    query = (
        whole_operations()
        .where(*wanted, *_behind(page, is_other))
        .order_by(is_other, *(key.desc() for key in keys))
        .limit(page.size)
        .offset(page.offset)
    )
    items = tuple(operation_from_row(dict(row)) for row in tx.execute(query).mappings())
    place = page.next_place(total, items, lambda last: [last.created_at, last.operation_id])
    return ListedOperations(
        page=Page(items=items, total=total, next=place),
        schedule=_find_schedule_of(tx, items),
        at=tx.now,
        obstacles=find_obstacles(tx),
    )


def _behind(page: PageRequest, is_other: Condition) -> Sequence[Condition]:
    """Return the conditions of what comes behind a place; the standing operation is before all."""
    if page.after is None:
        return ()
    if page.after.keys[-1] == STANDING_OPERATION:
        return (is_other,)
    return is_other, *page.behind(columns.created_at, columns.operation_id, descending=True)


def _find_schedule_of(tx: Transaction, shown: Sequence[RetryOperation]) -> Schedule | None:
    return find_schedule(tx) if any(each.is_standing for each in shown) else None


@reading
def find_operation(tx: Transaction, operation_id: str) -> OperationDetails | None:
    """Return the operation with that id, or None. Raises DatabaseUnavailable."""
    if not is_guid(operation_id):
        return None
    query = whole_operations().where(columns.operation_id == canonical(operation_id))
    row = tx.execute(query).mappings().one_or_none()
    if row is None:
        return None
    operation = operation_from_row(dict(row))
    key = operation.operation_id
    batches = retry_batches.c
    query = select(batches.batch_id, batches.reason).where(batches.operation_id == key)
    batch = tx.execute(query).one_or_none()
    return OperationDetails(
        operation=operation,
        at=tx.now,
        batch_id=None if batch is None else batch.batch_id,
        batch_reason=None if batch is None else batch.reason,
        skipped=read_skipped(tx, key),
        came_back=count_back(tx, operation),
        schedule=_find_schedule_of(tx, [operation]),
        obstacles=find_obstacles(tx),
    )


@reading
def list_asking(tx: Transaction) -> tuple[Sequence[RetryOperation], datetime]:
    """Return the operations that wait for approval, and the database's time.

    Those first that lapse first, MOST_LISTED at most. Raises DatabaseUnavailable.
    """
    query = (
        whole_operations()
        .where(approvals.c.state == ApprovalState.ASKED)
        .order_by(approvals.c.lapses_at, columns.operation_id)
        .limit(MOST_LISTED)
    )
    return [operation_from_row(dict(row)) for row in tx.execute(query).mappings()], tx.now


def is_alive() -> Condition:
    """Return the condition that an operation is neither completed nor cancelled."""
    return columns.state.in_(sorted(ALIVE))


def is_resting() -> Condition:
    """Return the condition that it is the standing operation, and is not cut: nothing is due."""
    standing = columns.operation_id == STANDING_OPERATION
    return standing & (columns.state == RetryOperationState.WAITING)


def whole_operations() -> Select[Any]:
    """Return the query for operations, with their outcomes, their canaries and their approvals."""
    return (
        select(
            retry_operations,
            canaries.size.label("canary_size"),
            canaries.wait_ms.label("canary_wait"),
            canaries.most_back.label("canary_most_back"),
            canaries.state.label("canary_state"),
            *(outcomes[name] for name in OUTCOME_COLUMNS),
            outcomes.unknown,
            *IN_OPERATIONS,
        )
        .join_from(
            retry_operations,
            retry_operation_outcomes,
            outcomes.operation_id == columns.operation_id,
        )
        .outerjoin(retry_operation_canaries, canaries.operation_id == columns.operation_id)
        .outerjoin(approvals, approvals.c.operation_id == columns.operation_id)
    )


def operation_from_row(row: Mapping[str, Any]) -> RetryOperation:
    """Return a row of `whole_operations` as a RetryOperation."""
    return RetryOperation(
        **{column.name: row[column.name] for column in _PLAIN},
        retry_type=RetryType(row["retry_type"]),
        selection=from_json(row["selection"]),
        limit=row["message_limit"],
        priority=Priority(row["priority"]),
        state=RetryOperationState(row["state"]),
        canary=_canary(row),
        approval=approval_from_row(row),
        drop_headers=tuple(row["drop_headers"] or ()),
        patch=row["patch"],
        outcomes=OutcomeCounts(
            **{name: row[name] for name in OUTCOME_COLUMNS}, unknown=row["unknown"]
        ),
    )


def _canary(row: Mapping[str, Any]) -> RunningCanary | None:
    if row["canary_size"] is None:
        return None
    return RunningCanary(
        size=row["canary_size"],
        wait=timedelta(milliseconds=row["canary_wait"]),
        most_back=row["canary_most_back"],
        state=CanaryState(row["canary_state"]),
    )


def read_skipped(tx: Transaction, operation_id: str) -> dict[str, str]:
    """Return why named ids were skipped so far, the first 1000 of them."""
    named = retry_operation_messages.c
    query = (
        select(named.unique_message_id, named.skipped_because)
        .where(named.operation_id == operation_id, named.skipped_because.is_not(None))
        .order_by(named.position)
        .limit(SHOWN_SKIPPED)
    )
    return {row.unique_message_id: row.skipped_because for row in tx.execute(query)}


DEPTH = 10
"""Historic operations that are shown (ServiceControl: RetryHistoryDepth)."""

MOST_FINISHED = 200
"""Finished operations that are looked at, the newest ones."""

_UNSEEN_TYPES = (RetryType.SINGLE_MESSAGE, RetryType.MULTIPLE_MESSAGES, RetryType.EDIT)
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
        tx.execute(whole_operations().where(columns.operation_id == canonical(operation_id)))
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
        whole_operations()
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
