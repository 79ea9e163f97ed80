"""Dead messages: revived, and declared dead by hand."""

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from retrier.api.answers import answer
from retrier.api.parts import Parts
from retrier.api.problems import problem
from retrier.api.request_context import InContext
from retrier.api.terms import Line
from retrier.api.views import messages as views
from retrier.domain.archive_operation import Refusal
from retrier.domain.retry_operation import RetryType
from retrier.domain.selection import Selection
from retrier.policy.reasons import find_named, why_not_a_reason
from retrier.store.queries.details import find_listed

router = APIRouter(prefix="/api/errors", tags=["dead messages"])

LONGEST_WHY = 500

_LATER = (
    "Look at the message: `retrier errors show` says how it stands, and what can be done with it."
)


def _built_in(word: str) -> str:
    why_not = why_not_a_reason(word)
    if why_not is not None:
        raise PydanticCustomError("no_reason", "{why_not}", {"why_not": why_not})
    return find_named(word) or word


class Why(BaseModel):
    """Why a message is declared dead; shown with it. `reason` takes the place of its own."""

    model_config = ConfigDict(extra="forbid", strict=True)

    why: Annotated[Line, Field(min_length=1, max_length=LONGEST_WHY)]
    reason: Annotated[str, AfterValidator(_built_in)] | None = None


@router.post("/{failed_message_id}/revive", status_code=202)
def revive_message(failed_message_id: str, context: InContext) -> Response:
    """Retry a dead message; its failures are counted anew."""
    selection = Selection(ids=(failed_message_id,))
    words = f"revive of message {failed_message_id}"
    request = context.request(RetryType.SINGLE_MESSAGE, selection, words)
    created = context.gateway.revive(request, failed_message_id)
    if isinstance(created, Refusal):
        return _refused(created, failed_message_id, "revived")
    return context.accepted(created)


@router.post("/{failed_message_id}/dead", status_code=200)
def declare_message_dead(
    request: Request, failed_message_id: str, body: Why, parts: Parts, context: InContext
) -> Response:
    """Declare an unresolved message dead: only a person's retry takes it from now on."""
    refusal = context.gateway.archives.declare_dead(
        failed_message_id, body.why, context.requested_by, body.reason
    )
    if refusal is not None:
        return _refused(refusal, failed_message_id, "declared dead")
    found = find_listed(parts.db, failed_message_id, parts.codec)
    # Nothing deletes an unresolved message; somebody may have acted on it since.
    return answer(request, {"id": failed_message_id} if found is None else views.item(found))


def _refused(refusal: Refusal, unique_id: str, done: str) -> Response:
    if refusal is Refusal.UNKNOWN:
        return problem(404, f"No failed message has the id {unique_id[:100]}.")
    return problem(409, f"The message cannot be {done}: {refusal}.", advice=_LATER)
