"""What happens to a retry batch in Forwarding, in this order."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

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
    """A run through a batch in Forwarding begins."""

    name = "batch.forwarding"
    batch_id: str
    operation_id: str
    staging_id: str | None
    counting: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRecorded(Event):
    """What was settled is recorded, with no window after it."""

    name = "forwarding.recorded"
    batch_id: str
    operation_id: str
    result: WindowResult


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowStamped(WindowRecorded):
    """The window before is recorded, and this one's claims are stamped."""

    name = "forwarding.stamped"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiesAcked(Event):
    """Copies whose message is recorded, or that are unwanted, are acknowledged."""

    name = "forwarding.acked"
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSent(Event):
    """The broker was handed these retries at `began`, and this became of each; not recorded yet."""

    name = "forwarding.published"
    messages: Sequence[Outgoing]
    outcomes: Sequence[Outcome]
    began: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySentAlone(WindowSent):
    """The same of one message that was sent by itself."""

    name = "forwarding.sent_alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionTried(Event):
    """The store was asked whether a batch is done; with nothing unrecorded it is deleted."""

    name = "forwarding.completed"
    batch_id: str
    unrecorded: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchForwarded(Event):
    """All of a batch is recorded, and the batch is deleted."""

    name = "batch.forwarded"
    batch_id: str
    operation_id: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingQueueDeleted(Event):
    """A staging queue that is held, or does not answer, is deleted."""

    name = "forwarding.queue_deleted"
    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestMoved(Event):
    """What was not recorded is in a new batch in Staging; None when nothing was left to move."""

    name = "forwarding.moved"
    batch_id: str
    operation_id: str
    new_batch_id: str | None
    size: int
    message_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestBackedOff(Event):
    """That batch waits: the staging queue loses copies; `repeated` if it did so before."""

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
"""Each follows an effect that a killed process leaves behind: tests kill a process at each."""
