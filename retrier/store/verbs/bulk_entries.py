"""Entries of the event log for acts on many messages: one for each chunk, with their numbers.

One entry for each of 300,000 messages would push everything else out of sight. What was done to one
message is found by its number: `store/queries/bulk_acts.py`.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from retrier.domain.archive_operation import Act, ArchiveOperation, ArchiveRequest
from retrier.domain.identity import to_ranges
from retrier.store.queries.bulk_acts import KINDS
from retrier.store.tables.event_log import Entry

_WORDS: Mapping[Act, str] = MappingProxyType(
    {
        Act.ARCHIVE: "archived",
        Act.UNARCHIVE: "unarchived: unresolved again",
        Act.RESOLVE: "resolved by hand",
    }
)


def tell_of_many(act: Act, who: str, operation_id: str | None, numbers: Sequence[int]) -> Entry:
    """Return the entry for the messages with these numbers, ascending and at least one."""
    return Entry(
        kind=KINDS[act],
        text=f"{len(numbers)} messages {_WORDS[act]}",
        who=who,
        operation_id=operation_id,
        details={"first": numbers[0], "last": numbers[-1], "numbers": to_ranges(numbers)},
    )


def tell_asked(request: ArchiveRequest, operation_id: str, total: int) -> Entry:
    """Return the entry for a request whose messages are changed chunk by chunk."""
    return Entry(
        kind=f"{request.act}_asked",
        text=f"{request.originator}: {request.act} of {total} messages was asked for",
        who=request.requested_by,
        operation_id=operation_id,
    )


def tell_completed(operation: ArchiveOperation, done: int, skipped: int) -> Entry:
    """Return the entry for its end."""
    return Entry(
        kind=f"{operation.act}_completed",
        text=f"{operation.originator}: completed, changed: {done}, left as they were: {skipped}",
        who=operation.requested_by,
        operation_id=operation.operation_id,
    )
