"""Acknowledging: a person has seen that a retry is over."""

from collections.abc import Sequence

from retrier.store.engine.database import writing
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.history import find_unacknowledged, find_unacknowledged_like
from retrier.store.tables import event_log
from retrier.store.tables import retry_operations as operations
from retrier.store.tables.event_log import Entry


@writing
def acknowledge_group(tx: Transaction, group_id: str, who: str) -> bool:
    """Note that the finished retries of a group were seen; false if there was none to see.

    Raises DatabaseUnavailable.
    """
    return _note_seen(tx, find_unacknowledged(tx, group_id), who)


@writing
def acknowledge_operation(tx: Transaction, operation_id: str, who: str) -> bool:
    """Note that a finished retry was seen, and earlier ones that asked for the same.

    Of each request only the last one is shown: without the earlier ones, the next of them would
    take its place. False if there was none to see. Raises DatabaseUnavailable.
    """
    return _note_seen(tx, find_unacknowledged_like(tx, operation_id), who)


def _note_seen(tx: Transaction, found: Sequence[str], who: str) -> bool:
    operations.acknowledge(tx, found)
    event_log.append(tx, [_entry(each, who) for each in found])
    return bool(found)


def _entry(operation_id: str, who: str) -> Entry:
    text = "somebody has seen that it is over"
    return Entry(kind="acknowledged", text=text, who=who, operation_id=operation_id)
