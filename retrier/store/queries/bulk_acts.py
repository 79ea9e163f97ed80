"""What acts on many messages did to one of them: their entries in the event log name numbers."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from sqlalchemy import select

from retrier.domain.archive_operation import Act
from retrier.domain.identity import is_within
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.event_log import LoggedEvent
from retrier.store.schema import archive_operations, event_log

entries = event_log.c

KINDS: Mapping[Act, str] = MappingProxyType(
    {
        Act.ARCHIVE: "messages_archived",
        Act.UNARCHIVE: "messages_unarchived",
        Act.RESOLVE: "messages_resolved",
    }
)
"""The kind of the entry for one chunk of each act."""


def find_bulk_acts(tx: Transaction, number: int) -> Sequence[LoggedEvent]:
    """Return the entries of chunks that changed the message with this number, the oldest first.

    Only those of operations that went chunk by chunk are read (their cursor has moved), by the
    index on the operation. There is one entry for each 1000 messages.
    """
    chunked = select(archive_operations.c.operation_id).where(archive_operations.c.cursor > 0)
    query = (
        select(event_log)
        .where(
            entries.operation_id.in_(chunked),
            entries.kind.in_(sorted(KINDS.values())),
            entries.details["first"].as_integer() <= number,
            entries.details["last"].as_integer() >= number,
        )
        .order_by(entries.event_id)
    )
    found = (LoggedEvent(**row) for row in tx.execute(query).mappings())
    return [each for each in found if is_within(number, _ranges(each))]


def _ranges(entry: LoggedEvent) -> Sequence[Sequence[int]]:
    ranges = (entry.details or {}).get("numbers")
    return ranges if isinstance(ranges, list) else []
