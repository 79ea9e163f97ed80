"""Events of acts on many messages: archive, unarchive, resolve."""

from dataclasses import dataclass

from retrier.events.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveAsked(Event):
    """A request is written down: its messages are changed chunk by chunk."""

    name = "archive.asked"
    operation_id: str
    act: str
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneAtOnce(Event):
    """A request was about so few messages that it was done before it was answered."""

    name = "archive.done_at_once"
    operation_id: str
    act: str
    done: int
    skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveChunkDone(Event):
    """One chunk is done: the transaction that moved the cursor is committed."""

    name = "archive.chunk_done"
    operation_id: str
    act: str
    done: int
    skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveCompleted(Event):
    """The last chunk is done, and the operation is completed."""

    name = "archive.completed"
    operation_id: str
    act: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivingPaused(Event):
    """A chunk failed, for the first time in a row; it is tried again."""

    name = "archive.paused"
    reason: str
    error: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivingResumed(Event):
    """A chunk is done after one had failed."""

    name = "archive.resumed"


ArchiveEffect = ArchiveAsked | ArchiveChunkDone | ArchiveCompleted
"""Each follows an effect that outlives a killed process: tests kill a process at each of them."""
