"""Requests for retries: of messages by id, of groups and queues, and of pending retries."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import Depends, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field

from retrier.api.answers import Answer, Refusal, Routes, answer, told
from retrier.api.archive import act_on, act_on_ids, archive_preview
from retrier.api.messages import pending as shown_pending
from retrier.api.parts import ApiParts, Parts
from retrier.api.places import (
    AfterQuery,
    Followed,
    ListOrder,
    PageOfIds,
    follow,
    read_number,
    read_time,
)
from retrier.api.requests import (
    MOST_IDS,
    WITHOUT_NUL,
    Age,
    InContext,
    LastMoment,
    Line,
    Moment,
    NamedIds,
    PageQuery,
    WellNamedIds,
    checked_shape,
    pending_retries,
)
from retrier.api.selections import PlanText, named_plan, refuse_plan
from retrier.api.shapes.messages import PendingRetry
from retrier.api.shapes.operations import ArchiveOutcome, ArchivePreview, AskedAgain, AskedRetry
from retrier.domain.archive_operation import Act
from retrier.domain.retry_operation import OF_ANOTHER, RetryType, as_counted, hash_subject
from retrier.domain.selection import Selection
from retrier.domain.text import count_messages
from retrier.store.groups import find_title
from retrier.store.pending import Waiting, list_pending, list_pending_ids, time_before

router = Routes(prefix="/api", tags=["retries"])


@router.post("/errors/retry/all", status_code=202)
def retry_all(context: InContext) -> Answer[AskedRetry]:
    """Retry every unresolved message."""
    return context.retry(RetryType.ALL, Selection(), "retry of all messages")


@router.post("/errors/retry", status_code=202)
def retry_messages(ids: NamedIds, context: InContext) -> Answer[AskedRetry]:
    """Retry the messages with these ids."""
    selection = Selection(ids=ids)
    return context.retry(
        RetryType.MULTIPLE_MESSAGES, selection, f"retry of {count_messages(len(ids))}"
    )


@router.post("/errors/queues/{queue:path}/retry", status_code=202)
def retry_queue(queue: str, context: InContext) -> Answer[AskedRetry]:
    """Retry the unresolved messages that failed on this queue."""
    return context.retry(
        RetryType.BY_QUEUE_ADDRESS, Selection(queue=queue), f"retry of queue {queue}"
    )


@router.post("/errors/{endpoint:path}/retry/all", status_code=202)
def retry_endpoint(endpoint: str, context: InContext) -> Answer[AskedRetry]:
    """Retry the unresolved messages of this endpoint."""
    return context.retry(
        RetryType.ALL_FOR_ENDPOINT, Selection(endpoint=endpoint), f"retry of endpoint {endpoint}"
    )


@router.post("/errors/{failed_message_id}/retry", status_code=202)
def retry_message(failed_message_id: str, context: InContext) -> Answer[AskedRetry]:
    """Retry one message."""
    selection = Selection(ids=(failed_message_id,))
    return context.retry(
        RetryType.SINGLE_MESSAGE, selection, f"retry of message {failed_message_id}"
    )


@router.post("/recoverability/groups/{group_id}/errors/retry", status_code=202)
def retry_group(group_id: str, parts: Parts, context: InContext) -> Answer[AskedRetry]:
    """Retry the unresolved messages of this group."""
    title = find_title(parts.db, group_id) or group_id
    return context.retry(
        RetryType.FAILURE_GROUP, Selection(group=group_id), f"retry of group {title}"
    )


pending = Routes(prefix="/api/pendingretries", tags=["pending retries"])


def _waiting(
    queue: str = "",
    operation: str = "",
    older_than: Annotated[Age | None, Query(description="sent so long ago: 2d, or seconds")] = None,
) -> Waiting:
    return Waiting(
        queue=queue or None,
        operation_id=operation or None,
        for_longer_than=None if older_than is None else timedelta(seconds=older_than),
    )


WaitingQuery = Annotated[Waiting, Depends(_waiting)]
_ORDER = ListOrder(name="pending", descending=False, keys=(read_time, read_number))


def _page(page: PageQuery, after: AfterQuery = "") -> Followed:
    return follow(page, after, _ORDER)


def _page_of_ids(page: PageOfIds, after: AfterQuery = "") -> Followed:
    return follow(page, after, _ORDER)


@pending.get("", name="get_pending_retries")
def get_pending(
    request: Request, parts: Parts, page: Annotated[Followed, Depends(_page)], wanted: WaitingQuery
) -> Answer[list[PendingRetry]]:
    """List the pending retries, the longest wait first."""
    found = list_pending(parts.db, wanted, page.wanted, parts.codec)
    items = [shown_pending(each) for each in found.items]
    return answer(request, items, page.headers(request, found))


@pending.get("/ids", name="get_pending_ids")
def get_pending_ids(
    request: Request,
    parts: Parts,
    page: Annotated[Followed, Depends(_page_of_ids)],
    wanted: WaitingQuery,
) -> Answer[list[str]]:
    """List the ids of the messages of pending retries and nothing else, to be followed to its end."""
    found = list_pending_ids(parts.db, wanted, page.wanted)
    return answer(request, list(found.items), page.headers(request, found))


class PendingFilter(BaseModel):
    """Pending retries of a queue and of an age; an empty object means all of them.

    Other members are refused: a misspelled one would mean everything.
    """

    model_config = ConfigDict(extra="forbid")

    queue: Annotated[str, Field(min_length=1), WITHOUT_NUL] | None = None
    older_than: Age | None = None

    def select(self, at: datetime) -> Selection:
        """Return them; the age counts from a time."""
        older = self.older_than
        before = None if older is None else at - timedelta(seconds=older)
        return pending_retries(self.queue, sent_before=before)

    @property
    def age(self) -> str:
        """The age in words, for the hash of a plan: the time that it means is another each moment."""
        return "" if self.older_than is None else f"{self.older_than:g}"

    @property
    def words(self) -> str:
        """What they are, the same for the same request: an idempotency key is bound to it."""
        of_queue = "" if self.queue is None else f" of queue {self.queue}"
        age = "" if self.older_than is None else f" that were sent {self.older_than:g} s ago"
        return f"pending retries{of_queue}{age}"


class PlannedPendingFilter(PendingFilter):
    """The same, or only what the preview counted of them."""

    plan: PlanText | None = None

    def planned(self, parts: ApiParts, act: Act) -> Selection | Refusal:
        """Return them as of now, or what the plan holds of them; 409 if it is of something else."""
        plan = named_plan(self.plan)
        if plan is None:
            return self.select(time_before(parts.db, _NOW))
        selection = self.select(plan.at)
        if plan.subject != hash_subject(act, selection, self.age):
            return refuse_plan(OF_ANOTHER, _look_at_pending(self, parts, act))
        return as_counted(selection, plan)


_NOW = timedelta(0)


@pending.post("/retry/all/preview", status_code=200)
def preview_retry_all_pending(body: PendingFilter, parts: Parts) -> Answer[ArchivePreview]:
    """Count which pending retries the same request would retry again."""
    return told(_look_at_pending(body, parts, Act.RELEASE))


@pending.post("/resolve/all/preview", status_code=200)
def preview_resolve_all_pending(body: PendingFilter, parts: Parts) -> Answer[ArchivePreview]:
    """Count which pending retries the same request would resolve."""
    return told(_look_at_pending(body, parts, Act.RESOLVE))


def _look_at_pending(body: PendingFilter, parts: ApiParts, act: Act) -> ArchivePreview:
    at = time_before(parts.db, _NOW)
    return archive_preview(parts.gateway.archives.plan(act, body.select(at), at, body.age))


@pending.post("/retry/all", status_code=202)
def retry_all_pending(
    body: PlannedPendingFilter, parts: Parts, context: InContext
) -> Answer[AskedAgain] | Refusal:
    """Retry all pending retries again, or those of a queue or an age."""
    chosen = body.planned(parts, Act.RELEASE)
    if isinstance(chosen, Refusal):
        return chosen
    return context.retry_again(f"retry of the {body.words}", (), chosen)


@pending.patch("/resolve/all", status_code=202)
def resolve_all_pending(
    body: PlannedPendingFilter, parts: Parts, context: InContext
) -> Answer[ArchiveOutcome] | Refusal:
    """Resolve all pending retries by hand, or those of a queue or an age."""
    chosen = body.planned(parts, Act.RESOLVE)
    if isinstance(chosen, Refusal):
        return chosen
    return act_on(context, Act.RESOLVE, chosen, f"the {body.words}")


class TimeRange(BaseModel):
    """The time of the messages' last change: two ISO 8601 times, both included.

    Other members are refused: a condition that nobody reads would mean the messages of all queues.
    """

    model_config = ConfigDict(extra="forbid")

    first: Annotated[Moment | None, Field(alias="from")] = None
    last: Annotated[LastMoment | None, Field(alias="to")] = None

    def of_time(self, queue: str | None = None) -> Selection:
        """Return the pending retries of this time. Raises HTTPException without both times."""
        if self.first is None or self.last is None:
            raise HTTPException(400, "The body must contain `from` and `to` (ISO 8601).")
        return pending_retries(queue, modified=(self.first, self.last))


class QueueTimeRange(TimeRange):
    """The same, for one queue."""

    queueaddress: Line = ""

    def of_queue(self) -> Selection:
        """Return the pending retries of queue and time. Raises HTTPException if one is missing."""
        if not self.queueaddress.strip():
            raise HTTPException(400, "The body must contain `queueaddress`, the name of a queue.")
        return self.of_time(self.queueaddress)


class IdsOrTimeRange(TimeRange):
    """Ids; or a range of times if there are no ids."""

    uniquemessageids: Annotated[list[Any] | None, Field(max_length=MOST_IDS)] = None


def _count(ids: Sequence[object]) -> str:
    return "1 pending retry" if len(ids) == 1 else f"{len(ids)} pending retries"


@pending.post("/retry", status_code=202)
def retry_pending_messages(ids: WellNamedIds, context: InContext) -> Answer[AskedAgain]:
    """Stop waiting for the outcome of these messages' retries, and retry them again."""
    return context.retry_again(f"retry of {_count(ids)}", ids)


@pending.post("/queues/retry", status_code=202)
def retry_pending_of_queue(body: QueueTimeRange, context: InContext) -> Answer[AskedAgain]:
    """Retry the pending retries of a queue again."""
    selection = body.of_queue()
    words = f"retry of the pending retries of queue {body.queueaddress}"
    return context.retry_again(words, (), selection)


@pending.patch("/resolve", status_code=202, name="resolve_pending_messages")
def resolve_messages(body: IdsOrTimeRange, context: InContext) -> Answer[ArchiveOutcome]:
    """Resolve the messages with these ids, or the pending retries of this time."""
    if body.uniquemessageids is not None:
        return act_on_ids(context, Act.RESOLVE, checked_shape(body.uniquemessageids))
    if body.first is None or body.last is None:
        raise RequestValidationError([_NEITHER])
    return act_on(context, Act.RESOLVE, body.of_time(), "the pending retries of a time")


@pending.patch("/queues/resolve", status_code=202, name="resolve_pending_of_queue")
def resolve_queue(body: QueueTimeRange, context: InContext) -> Answer[ArchiveOutcome]:
    """Resolve the pending retries of a queue."""
    words = f"the pending retries of queue {body.queueaddress}"
    return act_on(context, Act.RESOLVE, body.of_queue(), words)


_NEITHER = {
    "type": "missing",
    "loc": ("body", "uniquemessageids"),
    "msg": "Name ids in uniquemessageids, or a range of times in from and to.",
}
