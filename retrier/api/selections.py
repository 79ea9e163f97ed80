"""The selection in the body of a request: which messages it is about, as JSON."""

from typing import Annotated, Literal

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

from retrier.api.filters import LARGEST_INTEGER, LastMoment, Moment
from retrier.api.request_context import MOST_IDS, is_id
from retrier.domain.selection import Selection, WantedDisposition
from retrier.domain.text import COLUMN_BYTES, clean

_NOTHING = 'A selection names its messages; everything is {"all": true}.'
_ALONE = "`ids` and `all` go with no other part."
_NULL = "A part that is given has a value; leave it out if it is no condition."
_NO_ID = "Every id is a text that is not empty."
_UNCLEAN = f"No failed message has such a text: it holds NUL, or more than {COLUMN_BYTES} bytes."
_ONLY_TRUE = "It is true, or it is left out."
_TURNED = "It lies before `failed_from`, so that nothing would match."


def _cleaned(text: str) -> str:
    """Refuse what ingestion never stores, and what PostgreSQL refuses to compare."""
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


Text = Annotated[str, Field(min_length=1, max_length=COLUMN_BYTES), AfterValidator(_cleaned)]
Ids = Annotated[
    list[Annotated[str, AfterValidator(_an_id)]], Field(min_length=1, max_length=MOST_IDS)
]
Count = Annotated[int, Field(ge=1, le=LARGEST_INTEGER)]


class SelectionBody(BaseModel):
    """Conditions on messages, joined by *and*; or `ids` alone; or `all` alone.

    Nothing is guessed: a number is no text, an unknown part is refused, and so is null. A
    misspelled or forgotten condition would else select more than was meant.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

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
    failed_from: Moment | None = None
    failed_to: LastMoment | None = None
    attempts_at_least: Count | None = None
    # Not strict: in JSON it is a text.
    disposition: Annotated[WantedDisposition | None, Field(strict=False)] = None

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
            raise PydanticCustomError("turned", _TURNED)
        return value

    @model_validator(mode="after")
    def _names_something(self) -> "SelectionBody":
        given = self.model_fields_set
        if not given:
            raise PydanticCustomError("nothing", _NOTHING)
        if len(given) > 1 and given & {"ids", "everything"}:
            raise PydanticCustomError("not_alone", _ALONE)
        return self

    def to_selection(self) -> Selection:
        """Return it; with `all`, a selection without any condition."""
        parts = self.model_dump(exclude={"everything", "ids"}, exclude_none=True)
        return Selection(ids=None if self.ids is None else tuple(self.ids), **parts)
