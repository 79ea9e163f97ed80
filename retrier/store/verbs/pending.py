"""Pending retries retried again: released and asked for anew, in one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from sqlalchemy import Connection

from retrier.domain.retry_operation import RetryRequest
from retrier.domain.selection import Selection
from retrier.domain.ways_out import Act
from retrier.store import operations, ways_out
from retrier.store.database import Database
from retrier.store.operations import CreatedOperation
from retrier.store.sought import Sought


@dataclass(frozen=True, slots=True, kw_only=True)
class RetriedAgain:
    """The operation, None if nothing was left to retry, and how many claims were released."""

    created: CreatedOperation | None
    released: int


def retry_pending(
    db: Database, request: RetryRequest, unique_ids: Sequence[str], sought: Sought | None = None
) -> RetriedAgain:
    """Release the pending retries among these messages and create an operation for them.

    Ids that somebody named are all part of it: one that is no pending retry is retried as usual,
    or skipped with its reason. Of messages that were `sought` those that left meanwhile are not.
    Raises KeyReused, DatabaseUnavailable.
    """
    return db.transact(partial(_retry, db, request, unique_ids, sought))


def _retry(
    db: Database,
    request: RetryRequest,
    unique_ids: Sequence[str],
    sought: Sought | None,
    conn: Connection,
) -> RetriedAgain:
    selection = Selection(ids=tuple(unique_ids)) if sought is None else None
    known = operations.find_repeated(conn, request, selection)
    if known is not None:
        return RetriedAgain(created=known, released=0)
    asked = ways_out.Asked(act=Act.RELEASE, who=request.requested_by, sought=sought)
    released = ways_out.change(db, conn, asked, unique_ids).done
    named = tuple(unique_ids) if sought is None else released
    if sought is not None and not named:
        return RetriedAgain(created=None, released=0)
    # All these messages are locked, so their numbers are known and the cut-off is exact for them;
    # the cut-off lock, taken after row locks, would wait for those who wait for the rows.
    created = operations.freeze(db, conn, replace(request, selection=Selection(ids=named)))
    return RetriedAgain(created=created, released=len(released))
