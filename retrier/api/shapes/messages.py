"""Failed messages and their groups, redirects, and the event log."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, NotRequired

from typing_extensions import TypedDict

from retrier.api.shapes import Maybe, Time, one_of
from retrier.domain.failed_message import Disposition, FailedMessageStatus, Resolution
from retrier.domain.outcomes import RetryOutcome
from retrier.domain.retry_operation import RetryType

MessageStatus = Annotated[str, one_of(FailedMessageStatus)]
Resolved = Annotated[str, one_of(Resolution)]
Disposed = Annotated[str, one_of(Disposition)]


class ExceptionDetails(TypedDict):
    """Why it failed; without a stack trace its text is empty."""

    exception_type: NotRequired[Maybe[str]]
    source: NotRequired[Maybe[str]]
    message: str
    stack_trace: str


class Endpoint(TypedDict):
    """An endpoint and its host; of a host that is not known the id is all zeros."""

    name: str
    host_id: str
    host: str


class FailedMessage(TypedDict):
    """A failed message as lists show it. What is not known of it is left out."""

    id: str
    message_type: NotRequired[Maybe[str]]
    time_sent: NotRequired[Maybe[Time]]
    is_system_message: bool
    exception: ExceptionDetails
    message_id: NotRequired[Maybe[str]]
    number_of_processing_attempts: int
    status: MessageStatus
    resolution: NotRequired[Maybe[Resolved]]
    sending_endpoint: NotRequired[Maybe[Endpoint]]
    receiving_endpoint: Endpoint
    process: NotRequired[Maybe[str]]
    node: NotRequired[Maybe[str]]
    queue_address: str
    destination: str
    time_of_failure: Time
    first_failure: Time
    last_modified: Time
    edited: bool
    edit_of: NotRequired[Maybe[str]]
    failure_reason: NotRequired[Maybe[str]]
    disposition: Disposed
    disposition_reason: NotRequired[Maybe[str]]
    retry_at: NotRequired[Maybe[Time]]
    reason: NotRequired[Maybe[str]]
    policy: NotRequired[Maybe[str]]
    failure_count: int
    waits_because: NotRequired[Maybe[str]]


class Claim(TypedDict):
    """The claim of a retry on a message; in doubt while it is perhaps sent and not recorded."""

    unique_message_id: str
    batch_id: str
    operation_id: str
    retry_id: str
    sending_since: NotRequired[Maybe[Time]]
    forwarded_at: NotRequired[Maybe[Time]]
    in_doubt: bool


class PendingRetry(FailedMessage):
    """A message whose retry was sent and has no outcome yet."""

    sent_to: str
    waiting_seconds: int
    claim: Claim


class FailureDetails(TypedDict):
    """Where and why one failure happened."""

    address_of_failing_endpoint: str
    time_of_failure: NotRequired[Maybe[Time]]
    exception: ExceptionDetails


class MetadataEndpoint(TypedDict):
    """The endpoint that failed, as ServiceControl names it here."""

    Name: str
    HostId: str
    Host: str


class MessageMetadata(TypedDict):
    """What ServiceControl finds out about one failure; of older ones little is known."""

    MessageType: NotRequired[Maybe[str]]
    ReceivingEndpoint: MetadataEndpoint
    MessageId: NotRequired[Maybe[str]]
    MessageIntent: NotRequired[str]
    ConversationId: NotRequired[Maybe[str]]
    IsSystemMessage: NotRequired[bool]
    TimeSent: NotRequired[Maybe[Time]]
    ContentType: NotRequired[Maybe[str]]
    ContentLength: NotRequired[int]


class ProcessingAttempt(TypedDict):
    """One failure; the one whose details the message shows has the headers, too."""

    attempted_at: Time
    received_at: Time
    failure_details: FailureDetails
    retry_id: NotRequired[Maybe[str]]
    host: NotRequired[Maybe[str]]
    process: NotRequired[Maybe[str]]
    node: NotRequired[Maybe[str]]
    message_id: NotRequired[Maybe[str]]
    headers: NotRequired[Maybe[Mapping[str, str]]]
    message_metadata: NotRequired[MessageMetadata]


class Attempt(ProcessingAttempt):
    """One failure, and all else that is known of it."""

    attempt_id: int
    error_queue: str
    dialect: str
    endpoint: NotRequired[Maybe[str]]
    message_type: NotRequired[Maybe[str]]
    failure_reason: NotRequired[Maybe[str]]
    redelivered: bool
    disposition: NotRequired[Maybe[Disposed]]
    disposition_reason: NotRequired[Maybe[str]]
    policy: NotRequired[Maybe[str]]
    reason: NotRequired[Maybe[str]]
    failure_count: NotRequired[Maybe[int]]
    retry_at: NotRequired[Maybe[Time]]
    is_current: bool


class GroupOfMessage(TypedDict):
    """A group to which a message belongs."""

    id: str
    title: str
    type: str


EditStateName = Literal["waiting", "sent", "returned", "dropped", "in_doubt"]


class HeaderChange(TypedDict):
    """A header before and after; one of both is left out where it is not there."""

    key: str
    before: NotRequired[Maybe[str]]
    after: NotRequired[Maybe[str]]


class Edit(TypedDict):
    """An edit of a message, what became of it, and what differs from the failure that was edited."""

    edit_id: str
    operation_id: str
    state: EditStateName
    who: str
    why: NotRequired[Maybe[str]]
    reason: NotRequired[Maybe[str]]
    asked_at: Time
    ended_at: NotRequired[Maybe[Time]]
    message_id: str
    body_changed: bool
    body_size: int
    waits_for_approval: NotRequired[bool]
    headers: NotRequired[Maybe[Sequence[HeaderChange]]]


class FailedMessageDetails(FailedMessage):
    """A failed message with its attempts, groups and claim."""

    unique_message_id: str
    processing_attempts: Sequence[ProcessingAttempt]
    failure_groups: Sequence[GroupOfMessage]
    error_queue: str
    dialect: str
    content_type: NotRequired[Maybe[str]]
    properties: Mapping[str, object]
    body_size: int
    body_url: str
    completed_steps: NotRequired[Maybe[str]]
    stream: NotRequired[Maybe[str]]
    stream_position: NotRequired[Maybe[str]]
    stream_position_unread: NotRequired[Maybe[str]]
    resolved_at: NotRequired[Maybe[Time]]
    last_retry_id: NotRequired[Maybe[str]]
    maybe_copy_of: NotRequired[Maybe[str]]
    derived_from: NotRequired[Maybe[str]]
    derived: NotRequired[Maybe[Sequence[str]]]
    edits: NotRequired[Maybe[Sequence[Edit]]]
    edited_versions: NotRequired[Maybe[Sequence[str]]]
    claim: NotRequired[Maybe[Claim]]
    sent_to: NotRequired[Maybe[str]]
    fields: NotRequired[Maybe[Mapping[str, str]]]


class EditableHeader(TypedDict):
    """A header that goes back; a `fixed` one cannot be changed."""

    key: str
    value: str
    fixed: bool


class EditableMessage(TypedDict):
    """What of a message can be changed. Without `body` it is no text, or too large for one."""

    attempt_id: int
    headers: Sequence[EditableHeader]
    body: NotRequired[Maybe[str]]
    body_size: int
    charset: str
    packed: NotRequired[Maybe[str]]


class AskedEdit(TypedDict):
    """An edit that was taken, and the operation that sends it."""

    edit_id: str
    operation_id: str
    waits_for_approval: NotRequired[bool]


class HistoryLine(TypedDict):
    """One thing that happened to a message: `kind` is for programs, `text` for people."""

    at: Time
    kind: str
    text: str
    who: NotRequired[Maybe[str]]
    why: NotRequired[Maybe[str]]
    operation_id: NotRequired[Maybe[str]]
    retry_id: NotRequired[Maybe[str]]
    batch_id: NotRequired[Maybe[str]]
    event_id: NotRequired[Maybe[str]]
    attempt_id: NotRequired[Maybe[int]]
    time_of_failure: NotRequired[Maybe[Time]]
    disposition: NotRequired[Maybe[Disposition]]
    details: NotRequired[Maybe[Mapping[str, object]]]


Summary = TypedDict(
    "Summary",
    {
        "Endpoints": Mapping[str, int],
        "Hosts": Mapping[str, int],
        "Message types": Mapping[str, int],
        "Dispositions": Mapping[Disposition, int],
    },
)
"""Unresolved messages, counted by what they have in common."""


class QueueAddress(TypedDict):
    """A queue on which messages failed, with how many there are in any status."""

    physical_address: str
    failed_message_count: int


OperationStatus = Literal[
    "None",
    "Waiting",
    "Preparing",
    "Forwarding",
    "Completed",
    "ArchiveStarted",
    "ArchiveProgressing",
    "ArchiveCompleted",
]


class GroupComment(TypedDict):
    """What a person wrote about a group."""

    comment: str
    commented_by: str
    commented_at: Time


class Group(TypedDict):
    """A group with its messages counted."""

    id: str
    title: str
    type: str
    count: int
    manual: int
    scheduled: int
    dead: int
    first: NotRequired[Maybe[Time]]
    last: NotRequired[Maybe[Time]]
    first_seen: NotRequired[Maybe[Time]]
    comment: NotRequired[str]
    commented_by: NotRequired[str]
    commented_at: NotRequired[Time]


class ValueOfField(TypedDict):
    """A value of a declared field with its unresolved messages counted."""

    value: str
    count: int


class ValuesOfField(TypedDict):
    """The values of a declared field that most unresolved messages have; `total` are there."""

    field: str
    total: int
    messages: int
    values: list[ValueOfField]


class ArchivedGroup(TypedDict):
    """A group with its archived messages counted."""

    id: str
    title: str
    type: str
    count: int
    first: NotRequired[Maybe[Time]]
    last: NotRequired[Maybe[Time]]
    comment: NotRequired[str]
    commented_by: NotRequired[str]
    commented_at: NotRequired[Time]


class ClosedGroup(TypedDict):
    """How many messages a retry or archive that is over was about."""

    count: NotRequired[int]
    last: NotRequired[Time]


class GroupProgress(TypedDict):
    """How far the retry or the archive of a group is."""

    operation_id: NotRequired[str]
    operation_status: OperationStatus
    operation_progress: float
    operation_remaining_count: NotRequired[int]
    operation_messages_completed_count: NotRequired[int]
    operation_start_time: NotRequired[Maybe[Time]]


class OperationOfGroup(GroupProgress):
    """The same, and whether a person has seen how it ended."""

    operation_completion_time: NotRequired[Maybe[Time]]
    operation_failed: NotRequired[bool]
    need_user_acknowledgement: bool


class GroupWithOperation(Group, OperationOfGroup):
    """A group with its messages counted, and how far its retry or archive is."""

    waits_because: NotRequired[Maybe[str]]


class FinishedRetry(TypedDict):
    """A retry that is over."""

    operation_id: str
    request_id: str
    retry_type: Annotated[str, one_of(RetryType)]
    originator: str
    why: NotRequired[Maybe[str]]
    start_time: Time
    completion_time: NotRequired[Maybe[Time]]
    failed: bool
    number_of_messages_processed: int
    outcomes: Mapping[RetryOutcome, int]
    is_well: NotRequired[Maybe[bool]]


class RetryHistory(TypedDict):
    """The last retries that are over, and those that nobody has acknowledged."""

    historic_operations: Sequence[FinishedRetry]
    unacknowledged_operations: Sequence[FinishedRetry]


class Redirect(TypedDict):
    """Retries for one queue go to another."""

    message_redirect_id: str
    from_physical_address: str
    to_physical_address: str
    last_modified: Time


Severity = Literal["info", "warning", "error"]


class LoggedEvent(TypedDict):
    """One thing that happened; if it is about a message, that is the first of `related_to`."""

    id: str
    kind: str
    description: str
    severity: Severity
    raised_at: Time
    related_to: Sequence[str]
    category: str
    event_type: str
    who: str
    details: NotRequired[Maybe[Mapping[str, object]]]


class Header(TypedDict):
    """One header of a message."""

    key: str
    value: str


class MessageView(TypedDict):
    """A failed message as those clients want it who also know messages that went well."""

    id: str
    message_id: str
    message_type: str
    sending_endpoint: NotRequired[Maybe[Endpoint]]
    receiving_endpoint: Endpoint
    time_sent: NotRequired[Maybe[Time]]
    processed_at: Time
    critical_time: str
    processing_time: str
    delivery_time: str
    is_system_message: bool
    conversation_id: NotRequired[Maybe[str]]
    headers: Sequence[Header]
    status: str
    message_intent: str
    body_url: str
    body_size: int
    instance_id: str


class SavedView(TypedDict):
    """A list of the page with its conditions, under a name."""

    name: str
    page: str
    query: str
    path: str
    saved_by: str
    saved_at: Time
    version: int


FAILED_MESSAGE: FailedMessage = {
    "id": "964345ea-2fd5-55f9-8c4b-7ff24e4bbd5a",
    "message_type": "Shop.PlaceOrder",
    "time_sent": "2026-05-04T12:00:00.000000Z",
    "is_system_message": False,
    "exception": {
        "exception_type": "Shop.OutOfStock",
        "message": "nothing left of 4711",
        "stack_trace": "at Shop.Stock.take()",
    },
    "message_id": "order-1",
    "number_of_processing_attempts": 1,
    "status": "unresolved",
    "receiving_endpoint": {
        "name": "Sales",
        "host_id": "00000000-0000-0000-0000-000000000000",
        "host": "shop-1",
    },
    "queue_address": "orders",
    "destination": "orders",
    "time_of_failure": "2026-05-04T12:00:01.000000Z",
    "first_failure": "2026-05-04T12:00:01.000000Z",
    "last_modified": "2026-05-04T12:00:02.000000Z",
    "edited": False,
    "disposition": "manual",
    "reason": "handler_exception",
    "failure_count": 1,
}
GROUP: GroupWithOperation = {
    "id": "5a1d0b7e-92c1-5d3f-a7a7-33c2f3c1f4b1",
    "title": "Shop.OutOfStock: at Shop.Stock.take()",
    "type": "Exception Type and Stack Trace",
    "count": 2,
    "manual": 2,
    "scheduled": 0,
    "dead": 0,
    "first": "2026-05-04T12:00:01.000000Z",
    "last": "2026-05-04T12:05:00.000000Z",
    "first_seen": "2026-05-04T12:00:01.000000Z",
    "operation_status": "None",
    "operation_progress": 0.0,
    "need_user_acknowledgement": False,
}
