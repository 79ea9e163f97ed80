"""A recovery after a restore: begun and ended by a person; nothing is presumed meanwhile."""

from datetime import datetime

from retrier.domain.recovery import Recovery, RecoveryRefusal
from retrier.store.engine.database import writing
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.recovery import find_recovery
from retrier.store.tables import event_log, processor_lease, recovery
from retrier.store.tables.event_log import Entry


@writing
def begin_recovery(tx: Transaction, since: datetime, who: str) -> Recovery | RecoveryRefusal:
    """Begin a recovery, or change the time of the backup of one that is under way.

    Once this is committed nothing is presumed any more. Raises DatabaseUnavailable.
    """
    # A transaction that presumes holds the lease: this waits for one that found no recovery.
    processor_lease.lock(tx)
    if since > tx.now:
        return RecoveryRefusal.NOT_YET
    recovery.put(tx, since, event_log.short(who))
    begun = find_recovery(tx)
    if begun is None:
        raise AssertionError("the row that was just written is gone")
    text = f"nothing is presumed: a backup of {since:%Y-%m-%d %H:%M:%S}Z was restored"
    event_log.append(tx, [Entry(kind="recovery_begun", text=text, who=who)])
    return begun


@writing
def end_recovery(tx: Transaction, who: str) -> bool:
    """End the recovery; false if none is under way. Raises DatabaseUnavailable."""
    if not recovery.remove(tx):
        return False
    text = "the recovery is over: what was sent long ago may be presumed to have succeeded"
    event_log.append(tx, [Entry(kind="recovery_ended", text=text, who=who)])
    return True
