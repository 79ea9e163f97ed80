"""Events of retention: what is deleted for its age."""

from dataclasses import dataclass

from retrier.domain.retention import Old
from retrier.events.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkDeleted(Event):
    """One chunk is deleted: the transaction is committed."""

    name = "retention.deleted"
    old: Old
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSwept(Event):
    """A sweep that deleted something is over, and its entry is in the event log."""

    name = "retention.swept"
    messages: int
    operations: int
    imports: int


RetentionEffect = ChunkDeleted | RetentionSwept
"""Each follows an effect that outlives a killed process: tests kill a process at each of them."""
