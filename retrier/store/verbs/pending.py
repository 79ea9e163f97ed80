"""Pending retries retried again: released and asked for anew, in one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from retrier.domain.retry_operation import RetryRequest
from retrier.domain.selection import Selection, Sought
from retrier.domain.ways_out import Act
from retrier.store.engine.sql_dialect import Counter
from retrier.store.engine.transaction import Transaction
from retrier.store.engine.verb import writing
from retrier.store.verbs import asking, ways_out
from retrier.store.verbs.asking import CreatedOperation


@dataclass(frozen=True, slots=True, kw_only=True)
class RetriedAgain:
    """The operation, None if nothing was left to retry, and how many claims were released."""

    created: CreatedOperation | None
    released: int


@writing
def retry_pending(
    tx: Transaction,
    request: RetryRequest,
    unique_ids: Sequence[str],
    sought: Sought | None = None,
) -> RetriedAgain:
    """Release the pending retries among these messages and create an operation for them.

    Ids that somebody named are all part of it: one that is no pending retry is retried as usual,
    or skipped with its reason. Of messages that were `sought` those that left meanwhile are not.
    Raises KeyReused, DatabaseUnavailable.
    """
    selection = Selection(ids=tuple(unique_ids)) if sought is None else None
    known = asking.find_repeated(tx, request, selection)
    if known is not None:
        return RetriedAgain(created=known, released=0)
    asked = ways_out.Asked(act=Act.RELEASE, who=request.requested_by, sought=sought)
    released = ways_out.change(tx, asked, unique_ids).done
    named = tuple(unique_ids) if sought is None else released
    if sought is not None and not named:
        return RetriedAgain(created=None, released=0)
    # All these messages are locked, so their numbers are known and the cut-off is exact for them;
    # the cut-off lock, taken after row locks, would wait for those who wait for the rows.
    cut_off = tx.sql.last_number(tx.conn, Counter.FAILURE_SEQ)
    created = asking.freeze(tx, replace(request, selection=Selection(ids=named)), cut_off)
    return RetriedAgain(created=created, released=len(released))
