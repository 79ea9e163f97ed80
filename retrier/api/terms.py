"""The body of POST operations: a selection, and the terms on which its messages are sent."""

from datetime import timedelta
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from retrier.api.durations import Duration
from retrier.api.filters import ComingMoment
from retrier.api.plans import PlanText
from retrier.api.selections import SelectionBody
from retrier.domain.retry_operation import HIGHEST_RATE, Canary, RetryTerms

MOST_MESSAGES = 10_000_000
"""The largest limit of an operation."""

LONGEST_WHY = 1000
LARGEST_CANARY = 1000
"""Messages that are sent first at most: they are one batch."""

YEAR = timedelta(days=366)
"""How far ahead an operation may begin."""

_NUL = "It holds NUL."
_TWICE = "Give `not_before` or `in`, not both."
_TOO_LATE = "An operation begins within a year."
_WITHOUT_CANARY = "It goes with `canary` only."
_NULL = "A member that is given has a value; leave it out otherwise."


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("unclean", _NUL)
    return text


LONGEST_HEADER = 255
MOST_HEADERS = 50
"""Patterns of headers that one operation drops, at most."""

Line = Annotated[str, AfterValidator(_without_nul)]
HeaderPattern = Annotated[Line, Field(min_length=1, max_length=LONGEST_HEADER)]
Rate = Annotated[int, Field(ge=1, le=HIGHEST_RATE)]


class AskedBody(BaseModel):
    """A request for retries: which messages, and on what terms.

    The length and the owner of `destination`, and what `drop_headers` name, are judged later: they are answered 400.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    selection: SelectionBody
    limit: Annotated[int, Field(ge=1, le=MOST_MESSAGES)] | None = None
    destination: Line | None = None
    not_before: ComingMoment | None = None
    delay: Annotated[Duration | None, Field(alias="in")] = None
    why: Annotated[Line, Field(max_length=LONGEST_WHY)] | None = None
    rate: Rate | None = None
    canary: Annotated[int, Field(ge=1, le=LARGEST_CANARY)] | None = None
    canary_wait: Duration | None = None
    canary_limit: Annotated[int, Field(ge=0, le=LARGEST_CANARY)] | None = None
    drop_headers: Annotated[list[HeaderPattern], Field(max_length=MOST_HEADERS)] | None = None
    plan: PlanText | None = None

    @field_validator("*", mode="before")
    @classmethod
    def _has_value(cls, value: object) -> object:
        if value is None:
            raise PydanticCustomError("null", _NULL)
        return value

    @field_validator("delay", "canary_wait")
    @classmethod
    def _within_a_year(cls, value: timedelta) -> timedelta:
        if value > YEAR:
            raise PydanticCustomError("too_late", _TOO_LATE)
        return value

    @field_validator("canary_wait", "canary_limit")
    @classmethod
    def _of_a_canary(cls, value: object, known: ValidationInfo) -> object:
        if "canary" in known.data and known.data["canary"] is None:
            raise PydanticCustomError("without_canary", _WITHOUT_CANARY)
        return value

    @model_validator(mode="after")
    def _begins_once(self) -> "AskedBody":
        if self.not_before is not None and self.delay is not None:
            raise PydanticCustomError("twice", _TWICE)
        return self

    @property
    def terms(self) -> RetryTerms:
        """How the messages are to be sent."""
        return RetryTerms(
            limit=self.limit,
            destination=self.destination,
            not_before=self.not_before,
            delay=self.delay,
            rate=self.rate,
            canary=self._canary(),
            drop_headers=tuple(self.drop_headers or ()),
        )

    def _canary(self) -> Canary | None:
        if self.canary is None:
            return None
        wait = Canary(size=self.canary).wait if self.canary_wait is None else self.canary_wait
        return Canary(size=self.canary, wait=wait, most_back=self.canary_limit or 0)
