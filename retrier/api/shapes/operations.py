"""Operations that retry or archive, their batches, the processor, and the recovery."""

from collections.abc import Mapping, Sequence
from typing import Annotated, NotRequired

from typing_extensions import TypedDict

from retrier.api.shapes import Maybe, ReasonCount, SkippedMessage, Time, Working, one_of
from retrier.api.shapes.messages import Claim, FailedMessage, HeaderChange
from retrier.domain.approval import ApprovalState
from retrier.domain.archive_operation import Act, ArchiveOperationState
from retrier.domain.outcomes import RetryOutcome
from retrier.domain.processor_work import WaitingFor
from retrier.domain.retry_batch import RetryBatchStatus
from retrier.domain.retry_operation import CanaryState, RetryOperationState, RetryType

OperationState = Annotated[str, one_of(RetryOperationState)]
BatchStatus = Annotated[str, one_of(RetryBatchStatus)]


class AskedRetry(TypedDict):
    """An operation that was asked for, and which named messages it skips as they are."""

    operation_id: str
    total: int
    skipped: NotRequired[int]
    skipped_messages: NotRequired[Sequence[SkippedMessage]]
    dead_left_out: NotRequired[int]
    waits_for_approval: NotRequired[bool]


class AskedAgain(TypedDict):
    """Operations that retry pending retries again; without a message there is none."""

    operation_id: NotRequired[str]
    total: int
    operations: Sequence[str]
    waits_for_approval: NotRequired[bool]


class Approval(TypedDict):
    """The approval of an operation by a second person; `plan_hash` stands for what is approved."""

    state: Annotated[str, one_of(ApprovalState)]
    plan_hash: str
    total: int
    asked_by: str
    asked_at: Time
    lapses_at: Time
    decided_at: NotRequired[Maybe[Time]]
    decided_by: NotRequired[Maybe[str]]


class Operation(TypedDict):
    """A retry operation: what was asked for, by whom, and how far it is."""

    id: str
    retry_type: Annotated[str, one_of(RetryType)]
    originator: str
    requested_by: str
    why: NotRequired[Maybe[str]]
    selection: Mapping[str, str | int]
    state: OperationState
    cancel_asked: bool
    reason: NotRequired[Maybe[str]]
    limit: NotRequired[Maybe[int]]
    destination: NotRequired[Maybe[str]]
    rate: NotRequired[Maybe[int]]
    drop_headers: NotRequired[Maybe[Sequence[str]]]
    patch_hash: NotRequired[Maybe[str]]
    total: int
    forwarded: int
    skipped: int
    failed: int
    outcomes: Mapping[RetryOutcome, int]
    is_well: NotRequired[Maybe[bool]]
    left_out: int
    dead_left_out: int
    remaining: int
    scheduled: NotRequired[Maybe[int]]
    next_due: NotRequired[Maybe[Time]]
    batches: int
    not_before: NotRequired[Maybe[Time]]
    created_at: Time
    started_at: NotRequired[Maybe[Time]]
    completed_at: NotRequired[Maybe[Time]]
    modified_at: Time
    waits_because: NotRequired[Maybe[str]]
    approval: NotRequired[Maybe[Approval]]


class RunningCanary(TypedDict):
    """The messages that are sent first; `sent` are at most `size` of them."""

    size: int
    wait: float
    limit: int
    state: Annotated[str, one_of(CanaryState)]
    sent: int
    came_back: int | None


class OperationDetails(Operation):
    """An operation with its batch, its canary, its patch, and why named messages were skipped.

    The patch is shown to who may read bodies.
    """

    patch: NotRequired[Maybe[Mapping[str, object]]]
    batch_id: NotRequired[Maybe[str]]
    canary: NotRequired[Maybe[RunningCanary]]
    estimated_end: NotRequired[Maybe[Time]]
    skipped_messages: Sequence[SkippedMessage]


class Batch(TypedDict):
    """A batch and its claims counted."""

    operation_id: str
    session_id: str
    status: BatchStatus
    staging_id: NotRequired[Maybe[str]]
    initial_size: int
    message_count: NotRequired[Maybe[int]]
    stage_attempts: int
    not_before: NotRequired[Maybe[Time]]
    reason: NotRequired[Maybe[str]]
    created_at: Time
    modified_at: Time
    claims: int
    forwarded: int
    in_doubt: int
    is_now_forwarding: bool
    id: str


class BatchDetails(Batch):
    """A batch, and those of its claims that are in doubt: perhaps sent, and not recorded."""

    claims_in_doubt: Sequence[Claim]


class PreviewedLine(TypedDict):
    """So many of the messages have this in common; without an id the name is it.

    `not_sent_because` says of a destination why no retry is sent there.
    """

    id: NotRequired[Maybe[str]]
    name: str
    count: int
    not_sent_because: NotRequired[Maybe[str]]


class PreviewedLines(TypedDict):
    """The most frequent, and how many messages are left for others."""

    lines: Sequence[PreviewedLine]
    others: int


class PreviewWarning(TypedDict):
    """What is to be known before a retry: `kind` is for programs, `text` for people."""

    kind: str
    text: str


class PatchedSample(TypedDict):
    """A message before and after a patch; without bodies where they are no text."""

    id: str
    headers: Sequence[HeaderChange]
    body_changed: bool
    body_before: NotRequired[Maybe[str]]
    body_after: NotRequired[Maybe[str]]
    body_is_cut: bool


class PatchPreview(TypedDict):
    """What a patch would make of the first messages; `is_all`: there are no more.

    `would_not` counts by reason those that it cannot be applied to: they are not sent.
    """

    hash: str
    looked_at: int
    is_all: bool
    would_change: int
    would_not: Sequence[ReasonCount]
    samples: Sequence[PatchedSample]


class OperationPreview(TypedDict):
    """What an operation would do, and the plan by which it does this and nothing else."""

    total: int
    would_retry: int
    skipped: Sequence[ReasonCount]
    dead_left_out: NotRequired[Maybe[int]]
    skipped_messages: NotRequired[Maybe[Sequence[SkippedMessage]]]
    groups: PreviewedLines
    queues: PreviewedLines
    destinations: PreviewedLines
    ages: PreviewedLines
    attempts: PreviewedLines
    samples: Sequence[FailedMessage]
    patch: NotRequired[Maybe[PatchPreview]]
    warnings: Sequence[PreviewWarning]
    plan: str


class WaitingOperation(TypedDict):
    """An operation that is not over, and why it waits."""

    id: str
    originator: str
    state: OperationState
    remaining: int
    batch_id: NotRequired[Maybe[str]]
    waits_because: NotRequired[Maybe[str]]
    until: NotRequired[Maybe[Time]]


class ProcessorLease(TypedDict):
    """Which process is the processor."""

    is_held: bool
    epoch: NotRequired[int]
    session_id: NotRequired[Maybe[str]]
    host: NotRequired[Maybe[str]]
    pid: NotRequired[Maybe[int]]
    acquired_at: NotRequired[Maybe[Time]]
    renewed_at: NotRequired[Maybe[Time]]
    expires_at: NotRequired[Maybe[Time]]
    forwarding: NotRequired[Maybe[str]]


class Processor(ProcessorLease):
    """The processor, and what it does, or what it waits for and why."""

    stage: NotRequired[Maybe[RetryBatchStatus]]
    batch_id: NotRequired[Maybe[str]]
    operation_id: NotRequired[Maybe[str]]
    waits_for: NotRequired[Maybe[WaitingFor]]
    why: NotRequired[Maybe[str]]
    until: NotRequired[Maybe[Time]]
    here: NotRequired[Maybe[Working]]
    operations: Sequence[WaitingOperation]


class ChangedMessages(TypedDict):
    """How many messages changed so far, under the name of what was done."""

    archived: NotRequired[int]
    unarchived: NotRequired[int]
    resolved: NotRequired[int]


class ArchiveOutcome(ChangedMessages):
    """The same, and the operation."""

    skipped: Sequence[ReasonCount]
    operation_id: str
    state: ArchiveOperationState
    total: int


class ArchiveOperation(TypedDict):
    """An archive operation: what was asked for, by whom, and how far it is."""

    id: str
    act: Act
    originator: str
    requested_by: str
    why: NotRequired[Maybe[str]]
    selection: Mapping[str, object]
    state: ArchiveOperationState
    reason: NotRequired[Maybe[str]]
    total: int
    done: int
    skipped: int
    skipped_because: Sequence[ReasonCount]
    remaining: int
    undo_of: NotRequired[Maybe[str]]
    created_at: Time
    started_at: NotRequired[Maybe[Time]]
    completed_at: NotRequired[Maybe[Time]]
    acknowledged_at: NotRequired[Maybe[Time]]
    modified_at: Time


class ArchiveOperationDetails(ArchiveOperation):
    """An archive operation, and why named messages were left as they were."""

    skipped_messages: Sequence[SkippedMessage]


class ArchivePreview(TypedDict):
    """What an act would change and leave as it is, and the plan by which it does just this."""

    total: int
    skipped: Sequence[ReasonCount]
    plan: str


class QueueOnItsWay(TypedDict):
    """What was on its way of the messages that failed on a queue."""

    queue: str
    sent: int
    sent_before: int
    in_doubt: int
    not_sent: int


class Recovery(TypedDict):
    """Whether a recovery is under way, since when, and what was on its way."""

    held: bool
    since: NotRequired[Time]
    sent_from: NotRequired[Time]
    begun_at: NotRequired[Time]
    begun_by: NotRequired[str]
    queues: Sequence[QueueOnItsWay]


ASKED: AskedRetry = {"operation_id": "8d07c3aa-4f0f-5c0e-9a37-1f0d2c7a9b11", "total": 2}
OPERATION: OperationDetails = {
    "id": "8d07c3aa-4f0f-5c0e-9a37-1f0d2c7a9b11",
    "retry_type": "multipleMessages",
    "originator": "retry of 2 messages",
    "requested_by": "ada",
    "selection": {"ids": 2},
    "state": "completed",
    "cancel_asked": False,
    "total": 2,
    "forwarded": 2,
    "skipped": 0,
    "failed": 0,
    "outcomes": {
        RetryOutcome.CONFIRMED: 1,
        RetryOutcome.CAME_BACK: 0,
        RetryOutcome.PRESUMED: 0,
        RetryOutcome.RESOLVED: 0,
        RetryOutcome.RELEASED: 0,
        RetryOutcome.WAITING: 1,
    },
    "left_out": 0,
    "dead_left_out": 0,
    "remaining": 0,
    "batches": 1,
    "created_at": "2026-05-04T12:10:00.000000Z",
    "started_at": "2026-05-04T12:10:01.000000Z",
    "completed_at": "2026-05-04T12:10:03.000000Z",
    "modified_at": "2026-05-04T12:10:03.000000Z",
    "skipped_messages": [],
}
