"""Asking for retries. Every answer is 202 with the operation, also for ids nobody knows."""

from fastapi import APIRouter, Response

from retrier.api.asking import AskingFor
from retrier.api.named_ids import NamedIds
from retrier.api.parts import Parts
from retrier.domain.retry_operation import RetryType
from retrier.domain.selection import Selection
from retrier.store.queries.groups import find_title

router = APIRouter(prefix="/api", tags=["retries"])


@router.post("/errors/retry/all", status_code=202)
def retry_all(asking: AskingFor) -> Response:
    """Retry every unresolved message."""
    return asking.retry(RetryType.ALL, Selection(), "retry of all messages")


@router.post("/errors/retry", status_code=202)
def retry_messages(ids: NamedIds, asking: AskingFor) -> Response:
    """Retry the messages with these ids."""
    selection = Selection(ids=ids)
    return asking.retry(RetryType.MULTIPLE_MESSAGES, selection, f"retry of {len(ids)} messages")


@router.post("/errors/queues/{queue:path}/retry", status_code=202)
def retry_queue(queue: str, asking: AskingFor) -> Response:
    """Retry the unresolved messages that failed on this queue."""
    return asking.retry(
        RetryType.BY_QUEUE_ADDRESS, Selection(queue=queue), f"retry of queue {queue}"
    )


@router.post("/errors/{endpoint:path}/retry/all", status_code=202)
def retry_endpoint(endpoint: str, asking: AskingFor) -> Response:
    """Retry the unresolved messages of this endpoint."""
    return asking.retry(
        RetryType.ALL_FOR_ENDPOINT, Selection(endpoint=endpoint), f"retry of endpoint {endpoint}"
    )


@router.post("/errors/{failed_message_id}/retry", status_code=202)
def retry_message(failed_message_id: str, asking: AskingFor) -> Response:
    """Retry one message."""
    selection = Selection(ids=(failed_message_id,))
    return asking.retry(
        RetryType.SINGLE_MESSAGE, selection, f"retry of message {failed_message_id}"
    )


@router.post("/recoverability/groups/{group_id}/errors/retry", status_code=202)
def retry_group(group_id: str, parts: Parts, asking: AskingFor) -> Response:
    """Retry the unresolved messages of this group."""
    title = find_title(parts.db, group_id) or group_id
    return asking.retry(
        RetryType.FAILURE_GROUP, Selection(group=group_id), f"retry of group {title}"
    )
