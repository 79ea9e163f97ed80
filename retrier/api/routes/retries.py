"""Requests for retries: of messages by id, of groups and queues, and of pending retries."""

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field

from retrier.api.filters import Moment
from retrier.api.parts import Parts
from retrier.api.request_context import (
    MOST_IDS,
    InContext,
    NamedIds,
    act_on,
    act_on_ids,
    checked,
    pending_retries,
)
from retrier.domain.message_actions import Act
from retrier.domain.retry_operation import RetryType
from retrier.domain.selection import Selection
from retrier.store.queries.groups import find_title

router = APIRouter(prefix="/api", tags=["retries"])


@router.post("/errors/retry/all", status_code=202)
def retry_all(context: InContext) -> Response:
    """Retry every unresolved message."""
    return context.retry(RetryType.ALL, Selection(), "retry of all messages")


@router.post("/errors/retry", status_code=202)
def retry_messages(ids: NamedIds, context: InContext) -> Response:
    """Retry the messages with these ids."""
    selection = Selection(ids=ids)
    return context.retry(RetryType.MULTIPLE_MESSAGES, selection, f"retry of {len(ids)} messages")


@router.post("/errors/queues/{queue:path}/retry", status_code=202)
def retry_queue(queue: str, context: InContext) -> Response:
    """Retry the unresolved messages that failed on this queue."""
    return context.retry(
        RetryType.BY_QUEUE_ADDRESS, Selection(queue=queue), f"retry of queue {queue}"
    )


@router.post("/errors/{endpoint:path}/retry/all", status_code=202)
def retry_endpoint(endpoint: str, context: InContext) -> Response:
    """Retry the unresolved messages of this endpoint."""
    return context.retry(
        RetryType.ALL_FOR_ENDPOINT, Selection(endpoint=endpoint), f"retry of endpoint {endpoint}"
    )


@router.post("/errors/{failed_message_id}/retry", status_code=202)
def retry_message(failed_message_id: str, context: InContext) -> Response:
    """Retry one message."""
    selection = Selection(ids=(failed_message_id,))
    return context.retry(
        RetryType.SINGLE_MESSAGE, selection, f"retry of message {failed_message_id}"
    )


@router.post("/recoverability/groups/{group_id}/errors/retry", status_code=202)
def retry_group(group_id: str, parts: Parts, context: InContext) -> Response:
    """Retry the unresolved messages of this group."""
    title = find_title(parts.db, group_id) or group_id
    return context.retry(
        RetryType.FAILURE_GROUP, Selection(group=group_id), f"retry of group {title}"
    )


pending = APIRouter(prefix="/api/pendingretries", tags=["pending retries"])


class Between(BaseModel):
    """The time of the messages' last change: two ISO 8601 times, both included."""

    first: Annotated[Moment | None, Field(alias="from")] = None
    last: Annotated[Moment | None, Field(alias="to")] = None

    def of_time(self, queue: str | None = None) -> Selection:
        """Return the pending retries of this time. Raises HTTPException without both times."""
        if self.first is None or self.last is None:
            raise HTTPException(400, "The body must contain `from` and `to` (ISO 8601).")
        return pending_retries(queue, modified=(self.first, self.last))


class OfQueue(Between):
    """The same, for one queue."""

    queueaddress: str = ""

    def of_queue(self) -> Selection:
        """Return the pending retries of queue and time. Raises HTTPException if one is missing."""
        if not self.queueaddress.strip():
            raise HTTPException(400, "The body must contain `queueaddress`, the name of a queue.")
        return self.of_time(self.queueaddress)


class Named(Between):
    """Ids; or a range of times if there are no ids."""

    uniquemessageids: Annotated[list[Any] | None, Field(max_length=MOST_IDS)] = None


@pending.post("/retry", status_code=202, name="retry_messages")
def retry_pending_messages(ids: NamedIds, context: InContext) -> Response:
    """Stop waiting for the outcome of these messages' retries, and retry them again."""
    return context.retry_again(f"retry of {len(ids)} pending retries", ids)


@pending.post("/queues/retry", status_code=202, name="retry_queue")
def retry_pending_of_queue(body: OfQueue, context: InContext) -> Response:
    """Retry the pending retries of a queue again."""
    selection = body.of_queue()
    words = f"retry of the pending retries of queue {body.queueaddress}"
    return context.retry_again(words, (), selection)


@pending.patch("/resolve", status_code=202)
def resolve_messages(body: Named, context: InContext) -> Response:
    """Resolve the messages with these ids, or the pending retries of this time."""
    if body.uniquemessageids is not None:
        return act_on_ids(context, Act.RESOLVE, checked(body.uniquemessageids))
    if body.first is None or body.last is None:
        raise RequestValidationError([_NEITHER])
    return act_on(context, Act.RESOLVE, body.of_time())


@pending.patch("/queues/resolve", status_code=202)
def resolve_queue(body: OfQueue, context: InContext) -> Response:
    """Resolve the pending retries of a queue."""
    return act_on(context, Act.RESOLVE, body.of_queue())


_NEITHER = {
    "type": "missing",
    "loc": ("body", "uniquemessageids"),
    "msg": "Name ids in uniquemessageids, or a range of times in from and to.",
}
