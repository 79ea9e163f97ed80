"""Pending retries: retried again, or resolved by hand."""

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field

from retrier.api.acting import act_on, act_on_ids
from retrier.api.asking import AskingFor, pending_retries
from retrier.api.named_ids import MOST_IDS, NamedIds, checked
from retrier.api.times import Moment
from retrier.domain.selection import Sought
from retrier.domain.ways_out import Act

router = APIRouter(prefix="/api/pendingretries", tags=["pending retries"])


class Between(BaseModel):
    """When the messages were changed last: two ISO 8601 times, both included."""

    first: Annotated[Moment | None, Field(alias="from")] = None
    last: Annotated[Moment | None, Field(alias="to")] = None

    def sought(self, queue: str | None = None) -> Sought:
        """Return the pending retries of this time. Raises HTTPException without both times."""
        if self.first is None or self.last is None:
            raise HTTPException(400, "The body names two times, from and to.")
        return pending_retries(queue, modified=(self.first, self.last))


class OfQueue(Between):
    """The same, of one queue."""

    queueaddress: str = ""

    def of_queue(self) -> Sought:
        """Return the pending retries of this queue and time. Raises HTTPException without one."""
        if not self.queueaddress.strip():
            raise HTTPException(400, "The body names a queue in queueaddress.")
        return self.sought(self.queueaddress)


class Named(Between):
    """Ids, or else a range of times."""

    uniquemessageids: Annotated[list[Any] | None, Field(max_length=MOST_IDS)] = None


@router.post("/retry", status_code=202)
def retry_messages(ids: NamedIds, asking: AskingFor) -> Response:
    """Wait no longer for the outcome of these messages' retries: retry them again."""
    return asking.retry_again(f"retry of {len(ids)} pending retries", ids)


@router.post("/queues/retry", status_code=202)
def retry_queue(body: OfQueue, asking: AskingFor) -> Response:
    """Retry the pending retries of a queue again."""
    sought = body.of_queue()
    words = f"retry of the pending retries of queue {body.queueaddress}"
    return asking.retry_again(words, (), sought)


@router.patch("/resolve", status_code=202)
def resolve_messages(body: Named, asking: AskingFor) -> Response:
    """Resolve the messages with these ids, or the pending retries of this time."""
    if body.uniquemessageids is not None:
        return act_on_ids(asking, Act.RESOLVE, checked(body.uniquemessageids))
    if body.first is None or body.last is None:
        raise RequestValidationError([_NEITHER])
    return act_on(asking, Act.RESOLVE, body.sought())


@router.patch("/queues/resolve", status_code=202)
def resolve_queue(body: OfQueue, asking: AskingFor) -> Response:
    """Resolve the pending retries of a queue."""
    return act_on(asking, Act.RESOLVE, body.of_queue())


_NEITHER = {
    "type": "missing",
    "loc": ("body", "uniquemessageids"),
    "msg": "Name ids in uniquemessageids, or a range of times in from and to.",
}
