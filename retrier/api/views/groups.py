"""Failure groups as JSON (ServiceControl: GroupOperation, FailureGroupView)."""

from retrier.api.views.json import Json, present, time
from retrier.domain.retry_operation import RetryOperation, RetryOperationState
from retrier.store.queries.groups import GroupCount

_STATUSES = {
    RetryOperationState.PREPARING: "Preparing",
    RetryOperationState.FORWARDING: "Forwarding",
    RetryOperationState.COMPLETED: "Completed",
}


def group(counted: GroupCount) -> Json:
    """Show a group and its count."""
    return present(
        {
            "id": counted.group.group_id,
            "title": counted.group.title,
            "type": counted.group.classifier,
            "count": counted.count,
            "first": time(counted.first),
            "last": time(counted.last),
        }
    )


def group_operation(counted: GroupCount) -> Json:
    """Show a group and the retry alive for it; `operation_status` is always there."""
    idle = {"operation_status": "None", "operation_progress": 0.0}
    operation = _operation(counted.operation) if counted.operation else idle
    return group(counted) | operation | {"need_user_acknowledgement": False}


def _operation(alive: RetryOperation) -> Json:
    done = alive.total - alive.remaining
    return present(
        {
            "operation_id": alive.operation_id,
            "operation_status": _STATUSES.get(alive.state, "Waiting"),
            "operation_progress": round(done / alive.total, 2) if alive.total else 0.0,
            "operation_remaining_count": alive.remaining,
            "operation_messages_completed_count": done,
            "operation_start_time": time(alive.started_at),
        }
    )
