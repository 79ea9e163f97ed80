"""Presuming that retries have succeeded that were sent long ago and did not come back."""

from collections.abc import Sequence
from datetime import timedelta

from retrier.domain.failed_message import RetryEnd
from retrier.store.engine.transaction import Transaction
from retrier.store.tables import event_log, failed_messages
from retrier.store.tables.event_log import Entry
from retrier.store.tables.message_locks import lock_presumable
from retrier.store.verbs.leases import fenced
from retrier.store.verbs.retry_ends import end_claims


@fenced
def presume(tx: Transaction, sent_for: timedelta, numbers: Sequence[int]) -> int:
    """Resolve those of these messages whose retry was sent that long ago; return how many.

    One transaction, by the database's clock. What changed since it was found, or is being changed,
    stays as it is. One event tells of all of them: what became of each is in its own rows. Raises
    LeaseLost, DatabaseUnavailable.
    """
    sent_before = tx.now - sent_for
    ended = end_claims(tx, lock_presumable(tx, numbers, sent_before), RetryEnd.PRESUMED)
    failed_messages.presume(tx, [claim.number for claim in ended])
    if ended:
        text = (
            f"{len(ended)} messages resolved: their retries were sent before "
            f"{sent_before:%Y-%m-%d %H:%M:%S}Z and did not come back, so they are presumed to "
            "have succeeded"
        )
        event_log.append(tx, [Entry(kind="retries_presumed", text=text)])
    return len(ended)
