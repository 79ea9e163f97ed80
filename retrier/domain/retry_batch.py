"""Retry batches: at most 1000 messages that move together through Marking, Staging, Forwarding."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from retrier.domain.retry_operation import CanaryState, RetryOperation
from retrier.domain.values import dataclass

BATCH_SIZE = 1000
"""Messages a batch holds at most (ServiceControl: RetriesGateway.BatchSize)."""

BATCH_BYTES = 64 * 1024 * 1024
"""Bytes of bodies a batch holds at most, unless its first message alone has more."""

CUTS_A_SECOND = 5
"""Into how many cuts a rated operation divides a second: the messages of one go out together."""


class RetryBatchStatus(StrEnum):
    """Where a retry batch stands (ServiceControl: RetryBatchStatus); done = the row is deleted.

    MARKING     its claims are being taken. After a crash it is adopted with the claims it has.
    STAGING     its claims are complete. Copies of an earlier attempt may be in the staging queue.
                After a crash it is staged again under a new staging id, and old copies are dropped.
    FORWARDING  all copies are in the staging queue under its staging id; the pointer names it.
                After a crash messages not recorded are forwarded in non-counting mode.
    """

    MARKING = "marking"
    STAGING = "staging"
    FORWARDING = "forwarding"


NEXT: Mapping[RetryBatchStatus, RetryBatchStatus | None] = MappingProxyType(
    {
        RetryBatchStatus.MARKING: RetryBatchStatus.STAGING,
        RetryBatchStatus.STAGING: RetryBatchStatus.FORWARDING,
        RetryBatchStatus.FORWARDING: None,
    }
)
"""The only moves a batch can make; None = its row is deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryBatch:
    """One retry batch as the store holds it. `message_count` is frozen with the staging id."""

    batch_id: str
    operation_id: str
    session_id: str
    status: RetryBatchStatus
    staging_id: str | None
    initial_size: int
    message_count: int | None
    stage_attempts: int
    not_before: datetime | None
    reason: str | None
    created_at: datetime
    modified_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedMessage:
    """What staging needs of a claimed message. `size` counts the bytes of properties and body.

    `elsewhere` says that its destination is not the one of its failure. `message_type` and `policy`
    say by which breaker it is counted; None if none is used.
    """

    number: int
    unique_message_id: str
    retry_id: str
    destination: str
    size: int
    elsewhere: bool = False
    message_type: str | None = None
    policy: str | None = None


@dataclass(frozen=True, slots=True)
class StoredOriginal:
    """A message as it came off its error queue, and what its operation drops and changes of it.

    Or what a person has made of it (`edited`): that goes out instead, and is another message.
    """

    raw: bytes
    body: bytes
    dialect: str
    error_queue: str
    completed_steps: str | None
    drop_headers: tuple[str, ...] = ()
    edited: bool = False
    patch: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StampedMessage:
    """A message whose claim is stamped `sending_since`: no other may be published.

    `in_doubt` means it was stamped before: an earlier process or connection may have sent it.
    """

    number: int
    in_doubt: bool


class RevertCause(StrEnum):
    """Why a retry was reverted, so that its message is unresolved again.

    EJECTED   no copy of it can be made, or the staging queue refuses the copy.
    RETURNED  the broker returned it: the destination does not exist.
    REFUSED   the broker refused it, or the connection breaks each time it is sent.
    """

    EJECTED = "ejected"
    RETURNED = "returned"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ejected:
    """A message taken out of its batch: unresolved again, with the reason.

    `hopeless` means that no retry may ever go to its destination, as long as that is what it is.
    `unknown` means that it has none: a person has to name it. `may_have_arrived` means that it may
    be on its queue all the same: a person has to look before it is sent again. `unsendable` means
    that the broker refuses it each time, for what it is: no policy sends it again.
    """

    number: int
    unique_message_id: str
    reason: str
    cause: RevertCause = RevertCause.EJECTED
    destination: str = ""
    """Where its retry was sent to; empty when it was never sent."""
    hopeless: bool = False
    unknown: bool = False
    may_have_arrived: bool = False
    unsendable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedCopies:
    """Which messages one staging attempt put into the staging queue (by number), and which not.

    `next_ids` are recorded with them: staging ids for later copies and probes (decision 0030).
    `elsewhere` has the numbers of those that go to another queue than that of their failure.
    """

    staging_id: str
    numbers: tuple[int, ...]
    ejected: tuple[Ejected, ...]
    next_ids: tuple[str, ...] = ()
    elsewhere: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowResult:
    """The outcome of a published window, which must be recorded before anything else is done.

    `forwarded` holds message numbers, and `edited` those of them that went out as edited.
    """

    forwarded: tuple[int, ...] = ()
    reverted: tuple[Ejected, ...] = ()
    edited: tuple[int, ...] = ()

    def __add__(self, other: "WindowResult") -> "WindowResult":
        """Return both as one."""
        return WindowResult(
            forwarded=self.forwarded + other.forwarded,
            reverted=self.reverted + other.reverted,
            edited=self.edited + other.edited,
        )

    def __bool__(self) -> bool:
        """Whether there is anything to record."""
        return bool(self.forwarded or self.reverted)


NOTHING_FINISHED = WindowResult()
"""Of no window."""


def room_for(operation: RetryOperation) -> int:
    """Return how many messages the next batch of an operation may have, 0 to 1000.

    No batch of the operation may be alive: then forwarded and failed are all that was sent, and
    what was dropped or skipped uses up neither the limit nor the canary. A rated cut takes a fifth
    of what a second may send, at least one.
    """
    sent = operation.forwarded + operation.failed
    bounds = [BATCH_SIZE]
    if operation.limit is not None:
        bounds.append(operation.limit - sent)
    if operation.canary is not None and operation.canary.state is CanaryState.SENDING:
        bounds.append(operation.canary.size - sent)
    if operation.rate is not None:
        bounds.append(max(1, operation.rate // CUTS_A_SECOND))
    return max(0, min(bounds))
