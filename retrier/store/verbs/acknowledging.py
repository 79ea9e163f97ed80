"""Acknowledging: a person has seen that the retry of a group is over."""

from retrier.store.engine.database import writing
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.history import find_unacknowledged
from retrier.store.tables import event_log
from retrier.store.tables import retry_operations as operations
from retrier.store.tables.event_log import Entry


@writing
def acknowledge_group(tx: Transaction, group_id: str, who: str) -> bool:
    """Note that the finished retries of a group were seen; false if there was none to see.

    Raises DatabaseUnavailable.
    """
    found = find_unacknowledged(tx, group_id)
    for operation_id in operations.acknowledge(tx, found):
        text = "somebody has seen that it is over"
        entry = Entry(kind="acknowledged", text=text, who=who, operation_id=operation_id)
        event_log.append(tx, [entry])
    return bool(found)
