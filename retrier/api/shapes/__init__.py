"""What answers look like: types only, which routes give and clients read.

Here are the values of which they consist, and what several nouns show in the same way. The modules
load neither FastAPI nor the store, so that a command can use them.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, NotRequired, TypeVar

from pydantic import GetJsonSchemaHandler, WithJsonSchema
from pydantic_core import CoreSchema
from typing_extensions import TypedDict

T = TypeVar("T")


class _LeftOut:
    """Says in OpenAPI that a member is never null: without a value it is left out (`present`)."""

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        shown = handler(core_schema)
        kinds = [each for each in shown["anyOf"] if each != {"type": "null"}]
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


Maybe = Annotated[T | None, _LeftOut()]
"""The value of a member that is NotRequired: the function that makes it may have None for it."""


def camel(value: StrEnum) -> str:
    """Show a stored value as ServiceControl shows its enums: `retryIssued`."""
    first, *rest = value.split("_")
    return first + "".join(word.capitalize() for word in rest)


def one_of(values: Iterable[StrEnum]) -> WithJsonSchema:
    """Return the schema of stored values as `camel` shows them."""
    return WithJsonSchema({"type": "string", "enum": [camel(each) for each in values]})


Time = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]


class OnlyId(TypedDict):
    """What was acted on, if it was deleted meanwhile."""

    id: str


class ReasonCount(TypedDict):
    """So many are left as they are for this reason."""

    reason: str
    count: int


class SkippedMessage(TypedDict):
    """A message that is left as it is, and why."""

    id: str
    reason: str


class PlannedTotal(TypedDict):
    """How many a request would take, and the plan by which it takes these and no others."""

    total: int
    plan: str


class Working(TypedDict):
    """Whether a part works; the reason says why not."""

    ok: bool
    reason: str


class WrongMember(TypedDict):
    """A member of a body, or a parameter, that is wrong."""

    field: str
    reason: str


class Problem(TypedDict):
    """A refusal or a failure (RFC 9457): `advice` says what to do."""

    type: str
    title: str
    status: int
    detail: str
    advice: str
    errors: NotRequired[Sequence[WrongMember]]
    preview: NotRequired[Mapping[str, object]]
    failed_message_id: NotRequired[str]
