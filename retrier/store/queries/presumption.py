"""Which pending retries were sent so long ago that they are presumed to have succeeded."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import select

from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.recovery import find_recovery
from retrier.store.schema import failed_message_retries

claims = failed_message_retries.c

PRESUMED_AT_ONCE = 500
"""How many messages one transaction presumes to have succeeded, at most."""


@reading
def find_presumable(
    tx: Transaction, sent_for: timedelta, after: int, as_of: datetime | None = None
) -> Sequence[int]:
    """Return the next messages after the number `after` whose retry was sent that long ago, also `as_of` then.

    In the order of their numbers, by the key of the claims. No index has the time: it would be
    written whenever a window is recorded. Locks nothing; what is found is looked at again.
    Nothing is found during a recovery. Raises DatabaseUnavailable.
    """
    if find_recovery(tx) is not None:
        return ()
    due = (
        select(claims.number)
        .where(claims.number > after, claims.forwarded_at <= tx.agreed(as_of) - sent_for)
        .order_by(claims.number)
        .limit(PRESUMED_AT_ONCE)
    )
    return tx.execute(due).scalars().all()
