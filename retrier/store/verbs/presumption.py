"""Presuming that retries have succeeded that were sent long ago and did not come back."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from retrier.domain.failed_message import RetryEnd
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.recovery import find_recovery
from retrier.store.tables import claims, ended_retries, event_log, failed_messages
from retrier.store.tables.event_log import Entry
from retrier.store.tables.message_locks import lock_presumable
from retrier.store.verbs.leases import fenced


@fenced
def presume(
    tx: Transaction, sent_for: timedelta, numbers: Sequence[int], as_of: datetime | None = None
) -> int:
    """Resolve those of these messages whose retry was sent that long ago, also `as_of` then.

    Return how many. One transaction, by the database's clock. What changed since it was found, or is being changed,
    stays as it is, and so does all during a recovery. One event tells of all of them: what became of each is in its own rows. Raises
    LeaseLost, DatabaseUnavailable.
    """
    if find_recovery(tx) is not None:
        return 0
    sent_before = tx.agreed(as_of) - sent_for
    due = lock_presumable(tx, numbers, sent_before)
    if not due:
        return 0
    ended_retries.keep_claimed(tx, due, RetryEnd.PRESUMED)
    claims.drop(tx, due)
    failed_messages.presume(tx, due)
    text = (
        f"{len(due)} messages resolved: their retries were sent before "
        f"{sent_before:%Y-%m-%d %H:%M:%S}Z and did not come back, so they are presumed to "
        "have succeeded"
    )
    event_log.append(tx, [Entry(kind="retries_presumed", text=text)])
    return len(due)
