"""The history of retries, as ServiceControl's clients see it: the last ones, and those unseen."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from retrier.domain.retry_operation import RetryOperation, RetryOperationState, RetryType
from retrier.store.queries.history import History
from retrier.web.wording import number

_TYPES = {
    RetryType.SINGLE_MESSAGE: "one message",
    RetryType.MULTIPLE_MESSAGES: "several messages",
    RetryType.FAILURE_GROUP: "a group",
    RetryType.ALL_FOR_ENDPOINT: "an endpoint",
    RetryType.BY_QUEUE_ADDRESS: "a queue",
    RetryType.ALL: "all messages",
    RetryType.BY_POLICY: "by policy",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """One retry that is over. `needs_a_look` says that not all of it was sent."""

    operation_id: str
    title: str
    kind: str
    requested_by: str
    state: str
    tone: str
    needs_a_look: bool
    sent: str
    started_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPage:
    """All that the page shows."""

    unseen: Sequence[HistoryRow]
    last: Sequence[HistoryRow]


def history_page(found: History) -> HistoryPage:
    """Return the page."""
    return HistoryPage(unseen=_rows(found.unacknowledged), last=_rows(found.historic))


def _rows(operations: Iterable[RetryOperation]) -> Sequence[HistoryRow]:
    return [_row(each) for each in operations]


def _row(shown: RetryOperation) -> HistoryRow:
    cancelled = shown.state is RetryOperationState.CANCELLED
    look = shown.failed > 0 or cancelled
    return HistoryRow(
        operation_id=shown.operation_id,
        title=shown.originator[:1].upper() + shown.originator[1:],
        kind=_TYPES[shown.retry_type],
        requested_by=shown.requested_by,
        state="not all of it was sent" if look and not cancelled else shown.state.value,
        tone="wait" if look else "good",
        needs_a_look=look,
        sent=number(shown.forwarded),
        started_at=shown.started_at or shown.created_at,
        ended_at=shown.completed_at,
    )
