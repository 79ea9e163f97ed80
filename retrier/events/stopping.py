"""Events of operations that are stopped, slowed, or wait for what becomes of their first messages."""

from dataclasses import dataclass

from retrier.events.event import Event


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
