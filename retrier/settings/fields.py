"""What settings are made of: sections, and quantities with a unit."""

import re
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

KeyPath = tuple[str, ...]
"""A key and those it lies under: `("broker", "url")`."""


class Section(BaseModel):
    """A part of the settings."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_BYTES = {"": 1, "B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_DURATION = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)")
_SIZE = re.compile(r"([0-9]{1,12})(B|KiB|MiB|GiB)?")

# Far more than anyone waits, and a time of day less this much is still a time of day.
_LONGEST = timedelta(days=36500)


def _parse_duration(value: object) -> object:
    if isinstance(value, timedelta):
        return value
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError("must be a duration like 500ms, 30s, 5m, 1h or 7d")
    number, unit = found.groups()
    return timedelta(seconds=min(int(number) * _SECONDS[unit], 2 * _LONGEST.total_seconds()))


def _check_duration(value: timedelta) -> timedelta:
    if not timedelta(0) < value <= _LONGEST:
        raise ValueError("must be longer than 0s and at most 36500d")
    return value


def _parse_size(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError("must be a size like 64KiB, 16MiB or 1GiB, or a number of bytes")
    number, unit = found.groups(default="")
    return int(number) * _BYTES[unit]


def _check_size(value: int) -> int:
    if value < 1:
        raise ValueError("must be at least 1 byte")
    return value


def _refuse_truth(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a whole number")  # noqa: TRY004 - only a ValueError is a problem
    return value


def between(low: int, high: int) -> AfterValidator:
    """Accept the whole numbers from `low` to `high`, both included."""

    def check(value: int) -> int:
        if not low <= value <= high:
            raise ValueError(f"must be between {low} and {high}")
        return value

    return AfterValidator(check)


def at_least(shortest: timedelta) -> AfterValidator:
    """Accept durations that are not shorter."""

    def check(value: timedelta) -> timedelta:
        if value < shortest:
            raise ValueError(f"must be at least {shortest.total_seconds():g}s")
        return value

    return AfterValidator(check)


Count = Annotated[int, BeforeValidator(_refuse_truth)]
Duration = Annotated[timedelta, BeforeValidator(_parse_duration), AfterValidator(_check_duration)]
Size = Annotated[int, BeforeValidator(_parse_size), AfterValidator(_check_size)]
