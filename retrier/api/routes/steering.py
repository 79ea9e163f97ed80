"""Operations while they run: paused, resumed, cancelled, or given another rate."""

from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, model_validator

from retrier.api.answers import Json, accepted, answer
from retrier.api.parts import ApiParts, Parts
from retrier.api.problems import problem
from retrier.api.request_context import InContext
from retrier.api.views.operations import details
from retrier.domain.retry_operation import (
    HIGHEST_RATE,
    Cancel,
    Order,
    Pause,
    Resume,
    SetRate,
    SteeringRefusal,
)
from retrier.store.queries.operations import find_operation

router = APIRouter(prefix="/api/operations", tags=["operations"])

_OVER = "Look at it with GET: what was sent is counted there. To retry the rest, ask for a new one."
_PAUSE = 'To stop automatic retries, pause it: PATCH {"paused": true}. It stays paused.'


class Change(BaseModel):
    """What PATCH takes: `paused`, `rate` (messages a second; null lifts it), or both."""

    model_config = ConfigDict(extra="forbid")

    paused: StrictBool | None = None
    rate: Annotated[StrictInt | None, Field(ge=1, le=HIGHEST_RATE)] = None

    @model_validator(mode="after")
    def _says_something(self) -> "Change":
        if self.paused is None and "rate" not in self.model_fields_set:
            raise ValueError("Name `paused` (true or false), `rate` (a number or null), or both.")
        return self

    @property
    def orders(self) -> Iterator[Order]:
        """Yield what has to be done."""
        if self.paused is not None:
            yield Pause() if self.paused else Resume()
        if "rate" in self.model_fields_set:
            yield SetRate(self.rate)


@router.patch("/{operation_id}")
def change_operation(
    request: Request, operation_id: str, body: Change, parts: Parts, context: InContext
) -> Response:
    """Pause an operation, let it go on, or change its rate."""
    came_to = context.gateway.steer(operation_id, tuple(body.orders), context.requested_by)
    if isinstance(came_to, SteeringRefusal):
        return _refused(came_to, operation_id)
    return answer(request, _shown(parts, came_to.operation_id))


@router.delete("/{operation_id}", status_code=202)
def cancel_operation(operation_id: str, parts: Parts, context: InContext) -> Response:
    """Cancel an operation: nothing of it is sent that is not being sent already."""
    came_to = context.gateway.steer(operation_id, (Cancel(),), context.requested_by)
    if isinstance(came_to, SteeringRefusal):
        return _refused(came_to, operation_id)
    shown = _shown(parts, came_to.operation_id)
    return accepted(shown, f"/api/operations/{came_to.operation_id}")


def _shown(parts: ApiParts, operation_id: str) -> Json:
    found = find_operation(parts.db, operation_id)
    # Retention may delete one that is over at any moment.
    return {"id": operation_id} if found is None else details(found)


def _refused(refusal: SteeringRefusal, operation_id: str) -> Response:
    if refusal is SteeringRefusal.UNKNOWN:
        return problem(404, f"No operation has the id {operation_id[:100]}.")
    advice = _PAUSE if refusal is SteeringRefusal.STANDING else _OVER
    return problem(409, f"The operation is left as it is: {refusal}.", advice=advice)
