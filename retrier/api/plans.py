"""Plans in requests: what a preview counted, named again by the act."""

from typing import Annotated

from fastapi import Query, Response
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from retrier.api.answers import Json
from retrier.api.problems import problem
from retrier.domain.retry_operation import LONGEST, Plan, read_plan

_NO_PLAN = "It is not the plan of a preview."


def _checked(text: str) -> str:
    if read_plan(text) is None:
        raise PydanticCustomError("no_plan", _NO_PLAN)
    return text


PlanText = Annotated[str, Field(max_length=LONGEST), AfterValidator(_checked)]
"""The token of a plan, as a member of a body."""

PlanQuery = Annotated[
    str | None,
    Query(max_length=LONGEST, description="the plan of the preview: nothing else is done"),
    AfterValidator(lambda text: None if text is None else _checked(text)),
]
"""The same as a query parameter."""


def named_plan(text: str | None) -> Plan | None:
    """Return the plan that a request names, which was checked; None if it names none."""
    return None if text is None else read_plan(text)


def refuse_plan(why: str, preview: Json) -> Response:
    """Answer 409 with why a plan does not hold, and with the preview of what was asked for."""
    return problem(409, f"{why}: nothing was done. The preview as of now is here.", preview=preview)
