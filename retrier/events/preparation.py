"""What happens to a retry batch in Marking and Staging, in this order."""

from collections.abc import Sequence
from dataclasses import dataclass

from retrier.domain.retry_batch import Ejected
from retrier.events.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAdopted(Event):
    """A batch that was left in Marking is in Staging, or deleted because it had no claims."""

    name = "adoption.moved"
    batch_id: str
    operation_id: str
    session_id: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOpened(Event):
    """A batch is in Marking and has no claims."""

    name = "marking.opened"
    batch_id: str
    operation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesClaimed(Event):
    """A batch has its claims, and its operation's floor is moved."""

    name = "marking.claimed"
    batch_id: str
    operation_id: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMarked(Event):
    """A batch is in Staging."""

    name = "marking.moved"
    batch_id: str
    operation_id: str
    size: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationCompleted(Event):
    """Nothing of an operation is left to be marked, and none of its batches is left."""

    name = "operation.completed"
    operation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingIdsRecorded(Event):
    """Staging ids are in the database, an attempt's or the probes'; nothing went out under them."""

    name = "staging.id_recorded"
    staging_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingConnected(Event):
    """The staging queue is there, perhaps with a probe in it."""

    name = "staging.connected"
    batch_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingQueuePurged(Event):
    """The staging queue is empty; nothing of this attempt is in it."""

    name = "staging.purged"
    batch_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiesSent(Event):
    """So many copies are on their way into the staging queue, others not yet."""

    name = "staging.sent"
    staging_id: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySentAlone(Event):
    """One copy that shared a window with a refused one, or a probe, was sent by itself."""

    name = "staging.sent_alone"
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiesPublished(Event):
    """All copies are in the staging queue; the batch is still in Staging."""

    name = "staging.published"
    batch_id: str
    staging_id: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingBackedOff(Event):
    """A batch waits in Staging, with the reason why the broker did not take it."""

    name = "staging.backed_off"
    batch_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStaged(Event):
    """A batch is in Forwarding and the pointer names it; `ejected` messages are out of it."""

    name = "staging.committed"
    batch_id: str
    operation_id: str
    staging_id: str
    size: int
    seconds: float
    ejected: Sequence[Ejected]


PreparationEffect = (
    BatchAdopted
    | BatchOpened
    | MessagesClaimed
    | BatchMarked
    | StagingIdsRecorded
    | StagingConnected
    | StagingQueuePurged
    | CopiesSent
    | CopySentAlone
    | CopiesPublished
    | StagingBackedOff
    | BatchStaged
)
"""Each follows an effect that a killed process leaves behind: tests kill a process at each."""
