"""What the next cut would take: looked at before the lease is held, for a look may take long.

What streams hold, what was written in the text of a selection, what is behind a million messages:
a look may read any number of rows. The cut itself only takes what was found.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from sqlalchemy import false

from retrier.domain.breakers import Breaker, BreakerRules
from retrier.domain.retry_operation import CanaryState, RetryOperation, RetryType
from retrier.domain.streams import HeldLooks
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.queries import cuts
from retrier.store.queries.breaker_holds import find_left_out
from retrier.store.queries.breakers import find_coming_back, find_not_closed
from retrier.store.queries.cuts import Cut
from retrier.store.queries.left_out import LeftOut, find_reasons, join_left_out
from retrier.store.queries.next_work import find_next
from retrier.store.queries.stream_order import find_mark, hold_by_streams


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """How what is due by policy goes: bulk operations before it, and so many a second.

    By the breakers of these `rules` is known which retries come back.
    """

    bulk_first: bool = False
    per_second: int | None = None
    rules: BreakerRules = field(default_factory=BreakerRules)


PLAIN_TURNS = Turns()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What a cut of this operation would take, as long as the operation and these breakers are so.

    `left_out` has no conditions any more: only the trials, and if nothing is left to cut, the
    reasons. `mark` was taken before the look, of an operation that was passed over: what lets go
    during the look changes the next mark, and is looked for again.
    """

    operation: RetryOperation
    mark: str | None
    breakers: Sequence[Breaker]
    cut: Cut
    left_out: LeftOut | None


@reading
def look_at_next(tx: Transaction, turns: Turns, held: HeldLooks, *, may_hold: bool) -> Sight | None:
    """Look what the next cut would take; None if it need not be looked for, or if it is nothing.

    Not for messages named by id, of which a cut reads as many rows as it takes. `may_hold`: there
    are breakers that are not closed. Raises DatabaseUnavailable.
    """
    operation = find_next(tx, bulk_first=turns.bulk_first)
    if operation is None or not _is_looked_for(operation):
        return None
    mark = find_mark(tx) if operation.passed_over else None
    if mark is not None and mark == held.marks.get(operation.operation_id):
        return None
    begun = as_cut(operation, turns)
    breakers = sorted(find_not_closed(tx), key=attrgetter("breaker_id")) if may_hold else []
    left_out = join_left_out(find_left_out(tx, begun, breakers), hold_by_streams(tx))
    tx.sql.force_index_order(tx.conn)
    by_policy = operation.retry_type is RetryType.BY_POLICY
    coming_back = find_coming_back(tx, turns.rules) if by_policy else ()
    cut = cuts.look(tx, begun, left_out, coming_back)
    seen = None if left_out is None else _as_seen(tx, begun, cut, left_out)
    return Sight(operation=operation, mark=mark, breakers=breakers, cut=cut, left_out=seen)


def as_cut(operation: RetryOperation, turns: Turns) -> RetryOperation:
    """Return an operation as it is cut: as slow as it must be, and one that was passed over anew."""
    if operation.retry_type is RetryType.BY_POLICY:
        rates = (rate for rate in (operation.rate, turns.per_second) if rate is not None)
        operation = replace(operation, rate=min(rates, default=None))
    # From the beginning of its selection: what was left out before may be free now.
    return replace(operation, floor=0, left_out=0) if operation.passed_over else operation


def _is_looked_for(operation: RetryOperation) -> bool:
    judged = operation.canary is not None and operation.canary.state is CanaryState.WAITING
    return not operation.cancel_asked and not judged and operation.selection.ids is None


def _as_seen(
    tx: Transaction, operation: RetryOperation, cut: Cut, left_out: LeftOut
) -> LeftOut | None:
    """Return what it leaves out in words; None if nothing is left to cut and nothing holds any."""
    reasons = find_reasons(tx, operation, left_out) if cut.is_empty else ()
    if cut.is_empty and not reasons:
        return None
    parts = [
        LeftOut(condition=false(), reason=why, looks_again=part.looks_again)
        for part, why in reasons
    ]
    return LeftOut(condition=false(), reason="", trials=left_out.trials, parts=parts)
