"""Retry operations as JSON."""

from dataclasses import asdict
from datetime import datetime

from retrier.api.views.json import Json, camel, present, time
from retrier.domain.retry_operation import RetryOperation, RetryOperationState
from retrier.store.queries.operations import OperationDetails


def operation(shown: RetryOperation) -> Json:
    """Show an operation: what was asked for, by whom, and how far it is."""
    return present(
        {
            "id": shown.operation_id,
            "retry_type": camel(shown.retry_type),
            "originator": shown.originator,
            "requested_by": shown.requested_by,
            "why": shown.why,
            "selection": _selection(shown),
            "state": camel(shown.state),
            "reason": shown.reason,
            "total": shown.total,
            "forwarded": shown.forwarded,
            "skipped": shown.skipped,
            "failed": shown.failed,
            "remaining": shown.remaining,
            "batches": shown.batches,
            "not_before": time(shown.not_before),
            "created_at": time(shown.created_at),
            "started_at": time(shown.started_at),
            "completed_at": time(shown.completed_at),
            "modified_at": time(shown.modified_at),
        }
    )


def details(found: OperationDetails) -> Json:
    """Show an operation with its batch alive, an estimate, and why named ids were skipped."""
    more = {
        "batch_id": found.batch_id,
        "estimated_end": time(_estimated_end(found.operation, found.at)),
        "skipped_messages": [{"id": key, "reason": why} for key, why in found.skipped.items()],
    }
    return operation(found.operation) | present(more)


def _selection(shown: RetryOperation) -> Json:
    """The ids of a long list would drown the rest: their number stands for them."""
    parts = present(asdict(shown.selection))
    return parts | {"ids": shown.total} if "ids" in parts else parts


def _estimated_end(shown: RetryOperation, at: datetime) -> datetime | None:
    """Assume that what remains goes as fast as what went; nothing is known before the first."""
    done = shown.total - shown.remaining
    is_moving = shown.state is RetryOperationState.FORWARDING and done > 0
    if not is_moving or shown.started_at is None or shown.remaining == 0:
        return None
    return at + (at - shown.started_at) / done * shown.remaining
