"""Times that a request names, in its path, its query or its body: read here and nowhere else."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from retrier.api.problems import OUT_OF_BOUNDS, WrongField

_BOUNDS = "A time lies between the years 1 and 9999, in UTC too."
_SHAPE = "A time is a text in ISO 8601, such as 2026-05-04T00:00:00Z."
_RANGE = "A range is two ISO 8601 times: 2026-05-04T00:00:00Z...2026-05-05T00:00:00Z"

Range = tuple[datetime, datetime]


def read_range(first: str, last: str, fields: tuple[str, str]) -> Range:
    """Read a range of two times; `fields` name where they came from. Raises WrongField."""
    return _read_end(first, fields[0]), _read_end(last, fields[1])


def _read_end(text: str, field: str) -> datetime:
    try:
        return _read(text)
    except PydanticCustomError as error:
        raise WrongField(field, f"{error.message_template} {_RANGE}") from None


def _read(value: object) -> datetime:
    """Read a time into UTC; without an offset it is in UTC.

    Both databases take all that Python has, from the year 1 on: clients of .NET write that one
    for "since ever". What is less or more once its offset is applied is no time anywhere.
    """
    try:
        # What Python reads may end in a NUL.
        text = value.upper() if isinstance(value, str) and value.isprintable() else ""
        time = datetime.fromisoformat(text) if text else None
    except ValueError:
        time = None
    if time is None:
        raise PydanticCustomError("time_shape", _SHAPE)
    try:
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except OverflowError:
        raise PydanticCustomError(OUT_OF_BOUNDS, _BOUNDS) from None


Moment = Annotated[
    datetime, BeforeValidator(_read), WithJsonSchema({"type": "string", "format": "date-time"})
]
"""A time in a body. What is none is 422 like every wrong shape, one out of bounds 400."""
