"""Events of a retry batch in Marking and Staging, in the order in which they happen."""

from collections.abc import Sequence
from dataclasses import dataclass

from retrier.domain.decision import Decided
from retrier.domain.retry_batch import Ejected
from retrier.events.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAdopted(Event):
    """A batch left in Marking is now in Staging, or is deleted because it had no claims."""

    name = "adoption.moved"
    batch_id: str
    operation_id: str
    session_id: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOpened(Event):
    """A batch is in Marking and has no claims yet."""

    name = "marking.opened"
    batch_id: str
    operation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesClaimed(Event):
    """A batch has its claims, and the floor of its operation is moved."""

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
    """An operation has no message left to mark, and no batch left."""

    name = "operation.completed"
    operation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingIdsRecorded(Event):
    """Staging ids of an attempt or of probes are stored; no message was sent with them yet."""

    name = "staging.id_recorded"
    staging_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingConnected(Event):
    """The staging queue exists, perhaps with a probe in it."""

    name = "staging.connected"
    batch_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingQueuePurged(Event):
    """The staging queue is empty; nothing of this attempt is in it."""

    name = "staging.purged"
    batch_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiesSent(Event):
    """`count` copies are on their way into the staging queue; others are not sent yet."""

    name = "staging.sent"
    staging_id: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySentAlone(Event):
    """One copy or probe was sent alone; a copy, because its window held one that was refused."""

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
    """A batch waits in Staging; `reason` is why the broker did not take its copies."""

    name = "staging.backed_off"
    batch_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStaged(Event):
    """A batch is in Forwarding, the pointer names it, and `ejected` messages have left it.

    `decided` is what becomes of those.
    """

    name = "staging.committed"
    batch_id: str
    operation_id: str
    staging_id: str
    size: int
    seconds: float
    ejected: Sequence[Ejected]
    decided: Sequence[Decided] = ()


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
"""Each follows an effect that outlives a killed process: tests kill a process at each of them."""
