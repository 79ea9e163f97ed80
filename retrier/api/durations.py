"""Durations in the body of a request: a number with a unit, as in the settings."""

from datetime import timedelta
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from retrier.domain.times import DURATION_PATTERN, UNITS, NoTime, as_sentence, read_duration


def _read(value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    try:
        return read_duration(value if isinstance(value, str) else "")
    except NoTime as error:
        raise PydanticCustomError(
            "duration_shape", "{words}", {"words": as_sentence(error)}
        ) from None


def read_age(value: object) -> object:
    """Read a duration into seconds; what may be a number of seconds is left as it is."""
    is_duration = isinstance(value, str) and not _is_number(value)
    return _read(value).total_seconds() if is_duration else value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def show_duration(duration: timedelta) -> str:
    """Show it in its largest unit that needs no fraction; shorter than that, in milliseconds."""
    whole = round(duration / timedelta(milliseconds=1))
    for unit in ("d", "h", "m", "s"):
        number, rest = divmod(whole, round(UNITS[unit] * 1000))
        if number and not rest:
            return f"{number}{unit}"
    return f"{whole}ms"


Duration = Annotated[
    timedelta,
    BeforeValidator(_read),
    WithJsonSchema({"type": "string", "pattern": f"^{DURATION_PATTERN}$"}),
]
