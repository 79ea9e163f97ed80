"""Retry operations: all that one request asked for, as a durable cursor over its selection."""

from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum

from retrier.domain.selection import Selection

SMALL_SELECTION = 100
"""So many ids at most make a selection that overtakes bulk operations."""


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

    WAITING     nothing has been cut off it yet.
    PREPARING   its first batch is being marked or staged.
    FORWARDING  messages of it have been on their way; it may be cutting its next batch.
    PAUSED      a person stopped it; nothing more is cut.
    COMPLETED   a cut came back empty and no batch of it is alive.
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
    """Who goes first: single messages and short lists, then what is due by policy, then bulk."""

    SMALL = 0
    POLICY = 1
    BULK = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRequest:
    """What somebody asks for; becomes an operation in the transaction that freezes it."""

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
    """One retry operation as the store holds it; it outlives its batches."""

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
