"""Retry operations: one request for retries, stored with a cursor over what it selects."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from hashlib import sha256

from retrier.domain.selection import Selection, bounds_of, chosen_parts

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
    BY_POLICY = "by_policy"


STANDING_OPERATION = "00000000-0000-0000-0000-000000000001"
"""The id of the one operation that sends what is due by policy; it is never completed."""


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

ALIVE = OPEN_STATES | {RetryOperationState.PAUSED}
"""States of an operation that is neither completed nor cancelled."""


class Priority(IntEnum):
    """The order of cuts: single messages and short lists, then what is due by policy, then bulk."""

    SMALL = 0
    POLICY = 1
    BULK = 2


class CanaryState(StrEnum):
    """How far the first messages of an operation are, which are sent alone.

    SENDING  they are being sent; nothing else of the operation is.
    WAITING  they are sent, and the operation waits for those that come back.
    PASSED   few enough came back: the operation goes on.
    FAILED   too many came back: the operation is paused; who resumes it lets the rest go.
    """

    SENDING = "sending"
    WAITING = "waiting"
    PASSED = "passed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """Send the first `size` messages alone, wait, and go on if at most `most_back` came back."""

    size: int
    wait: timedelta = timedelta(seconds=60)
    most_back: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCanary:
    """The canary of an operation as stored: what was asked for, and how far it is."""

    size: int
    wait: timedelta
    most_back: int
    state: CanaryState


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryTerms:
    """How the messages of a request are to be sent; each part may be left open.

    `limit` messages at most, the first ones by failure number. All to `destination`, without
    redirects, and without the headers that fit `drop_headers`. Not before `not_before`, or not before a `delay` is over, counted from the request by
    the database's clock. At most `rate` messages a second.
    """

    limit: int | None = None
    destination: str | None = None
    not_before: datetime | None = None
    delay: timedelta | None = None
    rate: int | None = None
    canary: Canary | None = None
    drop_headers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRequest:
    """A request for retries; one transaction turns it into an operation with a fixed cut-off.

    `cut_off` is that of a preview, so that only what it counted is sent; None means now.
    """

    retry_type: RetryType
    selection: Selection
    originator: str
    requested_by: str
    why: str | None = None
    idempotency_key: str | None = None
    terms: RetryTerms = RetryTerms()
    cut_off: int | None = None

    @property
    def priority(self) -> Priority:
        """Where the operation stands in the queue for the next cut."""
        ids = self.selection.ids
        small = ids is not None and len(ids) <= SMALL_SELECTION
        return Priority.SMALL if small else Priority.BULK


_TYPES = {
    (): RetryType.ALL,
    ("group",): RetryType.FAILURE_GROUP,
    ("endpoint",): RetryType.ALL_FOR_ENDPOINT,
    ("queue",): RetryType.BY_QUEUE_ADDRESS,
}


def type_of(selection: Selection) -> RetryType:
    """Return what kind of request a selection makes; several conditions are multiple messages."""
    if selection.ids is not None and len(selection.ids) == 1:
        return RetryType.SINGLE_MESSAGE
    if selection.ids is not None:
        return RetryType.MULTIPLE_MESSAGES
    return _TYPES.get(tuple(chosen_parts(selection)), RetryType.MULTIPLE_MESSAGES)


def hash_request(request: RetryRequest) -> str:
    """Return the hash of everything that was asked for, without who asked and under which key.

    Two requests with the same hash ask for the same.
    """
    terms, canary = request.terms, request.terms.canary
    asked = {
        "type": request.retry_type,
        "originator": request.originator,
        "ids": None if request.selection.ids is None else sorted(set(request.selection.ids)),
        "parts": {**chosen_parts(request.selection), **bounds_of(request.selection)},
        "why": request.why,
        "limit": terms.limit,
        "destination": terms.destination,
        "not_before": None if terms.not_before is None else terms.not_before.isoformat(),
        "delay": None if terms.delay is None else terms.delay.total_seconds(),
        "rate": terms.rate,
        "canary": canary and [canary.size, canary.wait.total_seconds(), canary.most_back],
        "cut_off": request.cut_off,
    }
    if terms.drop_headers:  # else the hash is that of a version that knew none
        asked["drop_headers"] = sorted(set(terms.drop_headers))
    return sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOperation:
    """One retry operation as stored; it is kept when its batches are deleted.

    `dead_left_out` counts the dead messages that matched when it was asked for, and that were not
    asked for.
    """

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
    left_out: int
    limit: int | None
    destination: str | None
    rate: int | None
    cancel_asked: bool
    passed_over: bool
    look_again_at: datetime | None
    reason: str | None
    not_before: datetime | None
    next_cut: datetime | None
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    acknowledged_at: datetime | None
    modified_at: datetime
    canary: RunningCanary | None = None
    dead_left_out: int = 0
    drop_headers: tuple[str, ...] = ()

    @property
    def is_standing(self) -> bool:
        """Whether it is the one that sends what is due by policy, and is never completed."""
        return self.operation_id == STANDING_OPERATION

    @property
    def sent(self) -> int:
        """Messages forwarded or failed: those that count for the limit and for the canary."""
        return self.forwarded + self.failed

    @property
    def remaining(self) -> int:
        """Messages neither forwarded, skipped nor failed yet.

        With a limit, others are taken for those that are skipped, until the operation is over.
        """
        skipped = 0 if self.limit is not None and self.completed_at is None else self.skipped
        return max(0, self.total - self.sent - skipped)
