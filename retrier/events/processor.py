"""Events of the processor: its lease, each stage of a batch, and the threads beside them."""

from collections.abc import Sequence
from datetime import datetime

from retrier.domain.decision import Decided
from retrier.domain.retention import Old
from retrier.domain.retry_batch import Ejected, WindowResult
from retrier.domain.values import dataclass
from retrier.domain.wire import Outcome, Outgoing
from retrier.events.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseAcquired(Event):
    """This process is the processor, and has done nothing as such yet."""

    name = "lease.acquired"
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseReleased(Event):
    """The lease is released because of a stop; the process is about to end."""

    name = "lease.released"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseEnded(Event):
    """Another process may be the processor by now."""

    name = "processor.lease_lost"
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseAwaited(Event):
    """Another process is the processor; this one stands by."""

    name = "processor.waiting_for_lease"
    host: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseHeld(Event):
    """A transaction of the processor is over, and has held the lease for so long."""

    name = "lease.held"
    verb: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseHeldLong(Event):
    """One has held it for too long; the first of its kind in a minute.

    `slowest` is the slowest of its statements, without values: it took `slowest_seconds`.
    """

    name = "processor.lease_held_long"
    verb: str
    seconds: float
    statements: int
    slowest: str
    slowest_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GaveWay(Event):
    """The lease is given up: another process may reach the broker that this one cannot reach."""

    name = "processor.gave_way"
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorIdle(Event):
    """A turn found nothing to do."""

    name = "processor.idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFailed(Event):
    """A turn of the processor failed; the first error of its kind since a turn succeeded."""

    name = "processor.turn_failed"
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorRecovered(Event):
    """A turn of the processor succeeded again after errors."""

    name = "processor.recovered"


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingQueueRenewed(Event):
    """The staging queue does not answer, so it is about to be deleted and declared again."""

    name = "staging.renewed"
    reason: str


LeaseEffect = LeaseAcquired | LeaseReleased
"""Each follows an effect that outlives a killed process: tests kill a process at each of them."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class EndMarkerSent(Event):
    """The end marker is in the staging queue."""

    name = "forwarding.marked"
    batch_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardingBegun(Event):
    """A run of forwarding over one batch begins."""

    name = "batch.forwarding"
    batch_id: str
    operation_id: str
    staging_id: str | None
    counting: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRecorded(Event):
    """The outcomes of a window are recorded, and no new window was stamped with them.

    `decided` is what becomes of what was reverted.
    """

    name = "forwarding.recorded"
    batch_id: str
    operation_id: str
    result: WindowResult
    decided: Sequence[Decided] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowStamped(WindowRecorded):
    """The outcomes of the window before are recorded, and the claims of this one are stamped."""

    name = "forwarding.stamped"


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtMet(Event):
    """Claims of a window were stamped before: their messages are sent again, one by one."""

    name = "batch.sent_again"
    batch_id: str
    operation_id: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiesAcked(Event):
    """Copies are acknowledged: those of recorded messages, and those that are not needed."""

    name = "forwarding.acked"
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSent(Event):
    """These retries were sent from `began` on, each with its outcome; nothing is recorded yet."""

    name = "forwarding.published"
    messages: Sequence[Outgoing]
    outcomes: Sequence[Outcome]
    began: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySentAlone(WindowSent):
    """The same for one message that was sent in a window of its own."""

    name = "forwarding.sent_alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionTried(Event):
    """The store has checked whether a batch is done; if `unrecorded` is 0, the batch is deleted."""

    name = "forwarding.completed"
    batch_id: str
    unrecorded: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchForwarded(Event):
    """All messages of a batch are recorded, and the batch is deleted."""

    name = "batch.forwarded"
    batch_id: str
    operation_id: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingQueueDeleted(Event):
    """A staging queue was deleted, because another consumer holds it or it does not answer."""

    name = "forwarding.queue_deleted"
    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestMoved(Event):
    """The unrecorded messages are in a new batch in Staging; `new_batch_id` is None for none."""

    name = "forwarding.moved"
    batch_id: str
    operation_id: str
    new_batch_id: str | None
    size: int
    message_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestBackedOff(Event):
    """The new batch waits: the staging queue loses copies; `repeated` if it did so before."""

    name = "forwarding.backed_off"
    batch_id: str
    operation_id: str
    reason: str
    repeated: bool


ForwardingEffect = (
    EndMarkerSent
    | WindowRecorded
    | WindowStamped
    | CopiesAcked
    | WindowSent
    | RetrySentAlone
    | CompletionTried
    | StagingQueueDeleted
    | RestMoved
    | RestBackedOff
)
"""Each follows an effect that outlives a killed process: tests kill a process at each of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationPaused(Event):
    """A person has paused an operation: nothing more is cut off it."""

    name = "operation.paused"
    operation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationResumed(Event):
    """A person lets a paused operation go on."""

    name = "operation.resumed"
    operation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAsked(Event):
    """An operation waits for approval by a second person: nothing is cut off it before."""

    name = "approval.asked"
    operation_id: str
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalDecided(Event):
    """A second person has approved an operation, or refused it; `verdict` says which."""

    name = "approval.decided"
    operation_id: str
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalLapsed(Event):
    """Nobody has approved an operation in time: it is to be cancelled."""

    name = "approval.lapsed"
    operation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelAsked(Event):
    """A person has cancelled an operation; the processor ends it."""

    name = "operation.cancel_asked"
    operation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RateChanged(Event):
    """A person has changed how many messages a second an operation sends; `rate` says how many."""

    name = "operation.rate_changed"
    operation_id: str
    rate: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReleased(Event):
    """The unstamped claims of a batch are gone, because its operation is to be cancelled.

    `ended`: none was left, and the batch is deleted.
    """

    name = "cancelling.released"
    batch_id: str
    operation_id: str
    ended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationCancelled(Event):
    """An operation that was cancelled has ended: nothing of it is on its way."""

    name = "operation.cancelled"
    operation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CanarySent(Event):
    """The first messages of an operation are sent, and it waits for what becomes of them."""

    name = "canary.sent"
    operation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryPassed(Event):
    """Few enough of the first messages came back: the operation goes on."""

    name = "canary.passed"
    operation_id: str
    sent: int
    came_back: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryFailed(Event):
    """Too many of the first messages came back: the operation is paused."""

    name = "canary.failed"
    operation_id: str
    sent: int
    came_back: int


StoppingEffect = BatchReleased | OperationCancelled | CanarySent | CanaryPassed | CanaryFailed
"""Each follows an effect that outlives a killed process: tests kill a process at each of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerOpened(Event):
    """Retries to a destination, or of a message type, stop: too many failed."""

    name = "breaker.opened"
    breaker: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerHalfOpened(Event):
    """One message may try it."""

    name = "breaker.half_opened"
    breaker: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerClosed(Event):
    """Retries go again."""

    name = "breaker.closed"
    breaker: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerHandEnded(Event):
    """A person's word about a breaker has ended at its time."""

    name = "breaker.hand_ended"
    breaker: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimsHeldBack(Event):
    """Messages left their batch in Staging, because a breaker opened after it was cut."""

    name = "staging.held_back"
    batch_id: str
    operation_id: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerSet(Event):
    """A person has opened or closed a breaker."""

    name = "breaker.set"
    breaker: str
    words: str


BreakerEffect = (
    BreakerOpened | BreakerHalfOpened | BreakerClosed | BreakerHandEnded | ClaimsHeldBack
)
"""Each follows an effect that outlives a killed process: tests kill a process at each of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingPublished(Event):
    """The broker has settled a window; its rows are still in the database.

    A process that is killed here leaves them to the next one, which sends the window again.
    """

    name = "outgoing.published"
    confirmed: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingPaused(Event):
    """Nothing can be sent, for the first time in a row; `error` is set only if it is unexpected."""

    name = "outgoing.paused"
    reason: str
    error: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingResumed(Event):
    """Sending works again after a pause."""

    name = "outgoing.resumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQueueFailed(Event):
    """One queue takes no copies, for the first time in a row: it is missing or full."""

    name = "outgoing.queue_failed"
    queue: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQueueRecovered(Event):
    """A queue takes copies again."""

    name = "outgoing.queue_recovered"
    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingPutOff(Event):
    """Copies were refused, for the first time; each is tried again later, without the others."""

    name = "outgoing.put_off"
    queue: str
    count: int
    reason: str


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
