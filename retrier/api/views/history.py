"""Finished retry operations as ServiceControl shows them."""

from retrier.api.answers import Json, camel, present, time
from retrier.domain.retry_operation import RetryOperation, RetryOperationState, RetryType
from retrier.store.queries.history import History

_ALL = "All"


def history(found: History) -> Json:
    """Show the last operations, and those that a person has to acknowledge."""
    return {
        "historic_operations": [_operation(each) for each in found.historic],
        "unacknowledged_operations": [_operation(each) for each in found.unacknowledged],
    }


def is_failed(operation: RetryOperation) -> bool:
    """Say whether a finished operation needs a look: not all of it was sent."""
    return operation.failed > 0 or operation.state is RetryOperationState.CANCELLED


def _operation(finished: RetryOperation) -> Json:
    return present(
        {
            "operation_id": finished.operation_id,
            "request_id": _request_id(finished),
            "retry_type": camel(finished.retry_type),
            "originator": finished.originator,
            "why": finished.why,
            "start_time": time(finished.started_at or finished.created_at),
            "completion_time": time(finished.completed_at),
            "failed": is_failed(finished),
            "number_of_messages_processed": finished.forwarded,
        }
    )


def _request_id(finished: RetryOperation) -> str:
    """Return what was retried; for ids that of the operation, since there may be many."""
    selection = finished.selection
    named = {
        RetryType.FAILURE_GROUP: selection.group,
        RetryType.ALL_FOR_ENDPOINT: selection.endpoint,
        RetryType.BY_QUEUE_ADDRESS: selection.queue,
        RetryType.ALL: _ALL,
    }
    return named.get(finished.retry_type) or finished.operation_id
