"""Retry operations: one request for retries, stored with a cursor over what it selects."""

from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum

from retrier.domain.selection import Selection

SMALL_SELECTION = 100
"""A request that names at most this many ids overtakes bulk operations."""


class RetryType(StrEnum):
    """What kind of request made the operation (ServiceControl: RetryType)."""

    SINGLE_MESSAGE = "single_message"
    MULTIPLE_MESSAGES = "multiple_messages"
    FAILURE_GROUP = "failure_group"
    ALL_FOR_ENDPOINT = "all_for_endpoint"
    BY_QUEUE_ADDRESS = "by_queue_address"
    ALL = "all"


class RetryOperationState(StrEnum):
    """How far an operation is.

    WAITING     no batch has been cut from it yet.
    PREPARING   its first batch is being marked or staged.
    FORWARDING  a batch of it has reached Forwarding; its next batch may be cut already.
    PAUSED      a person stopped it; no further batch is cut.
    COMPLETED   the last cut found no message, and none of its batches is left.
    CANCELLED   a person ended it.
    """

    WAITING = "waiting"
    PREPARING = "preparing"
    FORWARDING = "forwarding"
    PAUSED = "paused"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


OPEN_STATES = frozenset(
    {RetryOperationState.WAITING, RetryOperationState.PREPARING, RetryOperationState.FORWARDING}
)
"""States in which the processor may cut the next batch."""


class Priority(IntEnum):
    """The order of cuts: single messages and short lists, then what is due by policy, then bulk."""

    SMALL = 0
    POLICY = 1
    BULK = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRequest:
    """A request for retries; one transaction turns it into an operation with a fixed cut-off."""

    retry_type: RetryType
    selection: Selection
    originator: str
    requested_by: str
    why: str | None = None
    idempotency_key: str | None = None

    @property
    def priority(self) -> Priority:
        """Where the operation stands in the queue for the next cut."""
        ids = self.selection.ids
        small = ids is not None and len(ids) <= SMALL_SELECTION
        return Priority.SMALL if small else Priority.BULK


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOperation:
    """One retry operation as stored; it is kept when its batches are deleted."""

    operation_id: str
    retry_type: RetryType
    selection: Selection
    cut_off: int
    floor: int
    originator: str
    requested_by: str
    why: str | None
    priority: Priority
    state: RetryOperationState
    total: int
    forwarded: int
    skipped: int
    failed: int
    batches: int
    reason: str | None
    not_before: datetime | None
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    modified_at: datetime

    @property
    def remaining(self) -> int:
        """Messages neither forwarded, skipped nor failed yet."""
        return max(0, self.total - self.forwarded - self.skipped - self.failed)
