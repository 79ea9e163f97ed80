"""Durations in the body of a request: a number with a unit, as in the settings."""

import re
from datetime import timedelta
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

_SHAPE = "A duration is a text like 500ms, 30s, 5m, 1h or 7d."
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)")
_LONGEST = 36_500 * 86_400
"""Seconds; `now` and that many are still a valid time."""


def _read(value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise PydanticCustomError("duration_shape", _SHAPE)
    number, unit = found.groups()
    return timedelta(seconds=min(int(number) * _UNITS[unit], _LONGEST))


def show_duration(duration: timedelta) -> str:
    """Show it in its largest unit that needs no fraction; shorter than that, in milliseconds."""
    whole = round(duration / timedelta(milliseconds=1))
    for unit in ("d", "h", "m", "s"):
        number, rest = divmod(whole, round(_UNITS[unit] * 1000))
        if number and not rest:
            return f"{number}{unit}"
    return f"{whole}ms"


Duration = Annotated[
    timedelta,
    BeforeValidator(_read),
    WithJsonSchema({"type": "string", "pattern": f"^{_DURATION.pattern}$"}),
]
