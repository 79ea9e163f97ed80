"""Taking note that a group is archived: the list of groups shows it no longer."""

from retrier.domain.archive_operation import ArchiveOperationState
from retrier.domain.identity import canonical, is_guid
from retrier.store.engine.database import writing
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.group_archives import list_group_archives
from retrier.store.tables import archive_operations, event_log
from retrier.store.tables.event_log import Entry


@writing
def acknowledge_archives(tx: Transaction, group_id: str, who: str) -> int:
    """Take note of the completed archive operations of a group; return how many there were.

    One that still runs stays in the list. Raises DatabaseUnavailable.
    """
    if not is_guid(group_id):
        return 0
    seen = [
        each.operation_id
        for group, each in list_group_archives(tx)
        if group == canonical(group_id) and each.state is ArchiveOperationState.COMPLETED
    ]
    if seen:
        archive_operations.acknowledge(tx, seen)
        event_log.append(tx, [_entry(each, who) for each in seen])
    return len(seen)


def _entry(operation_id: str, who: str) -> Entry:
    text = "somebody has seen that it is over"
    return Entry(kind="acknowledged", text=text, who=who, operation_id=operation_id)
