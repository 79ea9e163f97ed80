"""The body of a request: which messages, on which terms, and by which plan."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from retrier.api.answers import Refusal, problem
from retrier.api.parts import ApiParts
from retrier.api.requests import MOST_IDS, ComingMoment, Duration, LastMoment, Line, Moment, is_id
from retrier.domain.access import Right
from retrier.domain.fields import (
    NAME_PATTERN,
    PREFIX,
    NoCondition,
    check_name,
    read_conditions,
)
from retrier.domain.outcomes import RetryOutcome
from retrier.domain.retry_operation import (
    HIGHEST_RATE,
    LARGEST_CANARY,
    LONGEST,
    MOST_MESSAGES,
    YEAR,
    Canary,
    Plan,
    RetryTerms,
    read_plan,
)
from retrier.domain.selection import OUTCOME_ALONE, Selection, WantedDisposition
from retrier.domain.text import COLUMN_BYTES, clean
from retrier.http.filters import LARGEST_INTEGER, TURNED
from retrier.http.problems import WrongField

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


def refuse_plan(why: str, preview: object) -> Refusal:
    """Answer 409 with why a plan does not hold, and with the preview of what was asked for."""
    return problem(409, f"{why}: nothing was done. The preview as of now is here.", preview=preview)


_NOTHING = 'A selection names its messages; everything is {"all": true}.'
_ALONE = "`ids` and `all` go with no other part."
_NULL = "A part that is given has a value; leave it out if it is no condition."
_NO_ID = "Every id is a text that is not empty."
_UNCLEAN = "No failed message has such a text: it holds NUL."
_TOO_LONG = f"has at most {COLUMN_BYTES} bytes."
_ONLY_TRUE = "It is true, or it is left out."


def _cleaned(text: str, of: ValidationInfo) -> str:
    """Refuse what ingestion never stores, and what PostgreSQL refuses to compare.

    What is too long in the words in which an address is refused.
    """
    if len(text.encode(errors="replace")) > COLUMN_BYTES:
        raise PydanticCustomError("too_long", f"{of.field_name} {_TOO_LONG}")
    if clean(text) != text:
        raise PydanticCustomError("unclean", _UNCLEAN)
    return text


def _an_id(text: str) -> str:
    if not is_id(text):
        raise PydanticCustomError("no_id", _NO_ID)
    return text


def _is_true(value: object) -> object:
    if value is not True:
        raise PydanticCustomError("only_true", _ONLY_TRUE)
    return value


Text = Annotated[
    str,
    Field(min_length=1, json_schema_extra={"maxLength": COLUMN_BYTES}),
    AfterValidator(_cleaned),
]
Ids = Annotated[
    list[Annotated[str, AfterValidator(_an_id)]], Field(min_length=1, max_length=MOST_IDS)
]
OF_FIELDS = f"{PREFIX}*"
"""Stands for all members of a selection that are conditions on declared fields."""


def _show_fields(schema: dict[str, Any]) -> None:
    """Describe them as JSON has them: a member for each, whose name begins alike."""
    condition = schema["properties"].pop(OF_FIELDS)["additionalProperties"]
    schema["patternProperties"] = {f"^{re.escape(PREFIX)}{NAME_PATTERN}$": condition}


Count = Annotated[int, Field(ge=1, le=LARGEST_INTEGER)]


class SelectionBody(BaseModel):
    """Conditions on messages, joined by *and*; or `ids` alone; or `all` alone.

    Nothing is guessed: a number is no text, an unknown part is refused, and so is null. A
    misspelled or forgotten condition would else select more than was meant. A condition on the
    declared field `order` is the member `field.order`.
    """

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra=_show_fields)

    everything: Annotated[Literal[True] | None, Field(alias="all"), BeforeValidator(_is_true)] = (
        None
    )
    ids: Ids | None = None
    group: Text | None = None
    queue: Text | None = None
    endpoint: Text | None = None
    exception_type: Text | None = None
    message_type: Text | None = None
    reason: Text | None = None
    stream: Text | None = None
    host: Text | None = None
    process: Text | None = None
    node: Text | None = None
    text: Text | None = None
    words: Text | None = None
    failed_from: Moment | None = None
    failed_to: LastMoment | None = None
    attempts_at_least: Count | None = None
    # Not strict: in JSON it is a text.
    disposition: Annotated[WantedDisposition | None, Field(strict=False)] = None
    operation: Text | None = None
    outcome: Annotated[RetryOutcome | None, Field(strict=False)] = None
    fields: Annotated[dict[str, Text], Field(alias=OF_FIELDS)] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _gather_fields(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        named = [key for key in value if isinstance(key, str) and key.startswith(PREFIX)]
        gathered = {key.removeprefix(PREFIX): value[key] for key in named}
        others = {key: each for key, each in value.items() if key not in named}
        return {**others, OF_FIELDS: gathered} if named else value

    @field_validator("fields")
    @classmethod
    def _can_be_meant(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        try:
            read_conditions(value.items())
        except NoCondition as error:
            raise PydanticCustomError("no_condition", "{words}", {"words": str(error)}) from None
        return value

    @field_validator("*", mode="before")
    @classmethod
    def _has_value(cls, value: object) -> object:
        if value is None:
            raise PydanticCustomError("null", _NULL)
        return value

    @field_validator("failed_to")
    @classmethod
    def _not_turned(cls, value: Moment, known: ValidationInfo) -> Moment:
        first = known.data.get("failed_from")
        if first is not None and value < first:
            raise PydanticCustomError("turned", TURNED)
        return value

    @model_validator(mode="after")
    def _names_something(self) -> "SelectionBody":
        given = self.model_fields_set
        if not given:
            raise PydanticCustomError("nothing", _NOTHING)
        if len(given) > 1 and given & {"ids", "everything"}:
            raise PydanticCustomError("not_alone", _ALONE)
        if self.outcome is not None and self.operation is None:
            raise PydanticCustomError("outcome_alone", OUTCOME_ALONE)
        return self

    def to_selection(self) -> Selection:
        """Return it; with `all`, a selection without any condition."""
        parts = self.model_dump(exclude={"everything", "ids", "fields"}, exclude_none=True)
        ids = None if self.ids is None else tuple(self.ids)
        return Selection(ids=ids, **parts, fields=read_conditions(self.fields.items()))


def understand(body: SelectionBody, parts: ApiParts) -> Selection:
    """Return what is selected.

    Raises WrongField if a field is not declared or words are not read, NotAllowed for who may not
    read what fields and words are of.
    """
    if body.words is not None:
        parts.must_find_words("body.selection.words")
    if body.fields:
        parts.gateway.guard.must(Right.READ_CONTENT)
    for name in body.fields:
        try:
            check_name(name, parts.field_names)
        except NoCondition as error:
            raise WrongField(f"body.selection.{PREFIX}{name}", str(error)) from None
    return body.to_selection()


LONGEST_WHY = 1000
_TWICE = "Give `not_before` or `in`, not both."
_TOO_LATE = "An operation begins within a year."
_WITHOUT_CANARY = "It goes with `canary` only."
_NULL_MEMBER = "A member that is given has a value; leave it out otherwise."


LONGEST_HEADER = 255
MOST_HEADERS = 50
"""Patterns of headers that one operation drops, at most."""

HeaderPattern = Annotated[Line, Field(min_length=1, max_length=LONGEST_HEADER)]
Rate = Annotated[int, Field(ge=1, le=HIGHEST_RATE)]


class AskedBody(BaseModel):
    """A request for retries: which messages, and on what terms.

    The length and the owner of `destination`, what `drop_headers` name, and what `patch` says, are judged later: they are answered 400.
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
    patch: dict[str, Any] | None = None
    plan: PlanText | None = None

    @field_validator("*", mode="before")
    @classmethod
    def _has_value(cls, value: object) -> object:
        if value is None:
            raise PydanticCustomError("null", _NULL_MEMBER)
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
