"""Events of a retry batch in Forwarding, in the order in which they happen."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from retrier.domain.decision import Decided
from retrier.domain.retry_batch import WindowResult
from retrier.domain.wire import Outcome, Outgoing
from retrier.events.event import Event


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
