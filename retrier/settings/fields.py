"""What settings are made of: sections, and quantities with a unit."""

import re
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

from retrier.domain.headers import why_not_dropped

KeyPath = tuple[str, ...]
"""A key, after the sections that hold it: `("broker", "url")`."""


class Section(BaseModel):
    """A part of the settings."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


AS_RESOLVED = "resolved"
_LONGEST_NAME = 255
"""Bytes of a queue name: a short string in AMQP 0-9-1."""
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_BYTES = {"": 1, "B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_DURATION = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)")
_SIZE = re.compile(r"([0-9]{1,12})(B|KiB|MiB|GiB)?")

# Longer than anybody waits, and short enough that `now` minus it is still a valid datetime.
_LONGEST = timedelta(days=36500)


def parse_duration(value: object) -> timedelta:
    """Read a number with a unit. Raises ValueError."""
    if isinstance(value, timedelta):
        return value
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError("must be a duration like 500ms, 30s, 5m, 1h or 7d")
    number, unit = found.groups()
    return timedelta(seconds=min(int(number) * _SECONDS[unit], 2 * _LONGEST.total_seconds()))


def _parse_duration_or_off(value: object) -> timedelta | None:
    # YAML 1.1 reads a bare `off` as false; from the environment it comes as text.
    if value is False or value == "off":
        return None
    try:
        return parse_duration(value)
    except ValueError as error:
        raise ValueError(f"{error}, or off") from None


def _check_duration_or_off(value: timedelta | None) -> timedelta | None:
    return None if value is None else check_duration(value)


def check_duration(value: timedelta) -> timedelta:
    """Return it if it is neither nothing nor too long. Raises ValueError."""
    if not timedelta(0) < value <= _LONGEST:
        raise ValueError("must be longer than 0s and at most 36500d")
    return value


def _check_wait(value: timedelta) -> timedelta:
    return value if value == timedelta(0) else check_duration(value)


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


def check_queue_name(name: str) -> str:
    """Return the name if a queue can have it. Raises ValueError."""
    if not 1 <= len(name.encode(errors="replace")) <= _LONGEST_NAME:
        raise ValueError(f"must be a queue name of 1 to {_LONGEST_NAME} bytes")
    return name


def _read_off(value: object) -> object:
    # In the environment nothing but an empty text can say that there is no queue.
    return None if value == "" else value


def _refuse_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a whole number")  # noqa: TRY004 - pydantic reports ValueErrors
    return value


def _parse_kept_alike(value: object) -> object:
    if value == AS_RESOLVED:
        return value
    try:
        kept = _parse_duration_or_off(value)
    except ValueError as error:
        raise ValueError(f"{error}, or {AS_RESOLVED}") from None
    return _check_duration_or_off(kept)


def between(low: int, high: int) -> AfterValidator:
    """Accept the whole numbers from `low` to `high`, both included."""

    def check(value: int) -> int:
        if not low <= value <= high:
            raise ValueError(f"must be between {low} and {high}")
        return value

    return AfterValidator(check)


def at_least(shortest: str) -> AfterValidator:
    """Accept durations of at least `shortest`, and `off`."""
    limit = parse_duration(shortest)

    def check(value: timedelta | None) -> timedelta | None:
        if value is not None and value < limit:
            raise ValueError(f"must be at least {shortest}")
        return value

    return AfterValidator(check)


Count = Annotated[int, BeforeValidator(_refuse_bool)]
Duration = Annotated[timedelta, BeforeValidator(parse_duration), AfterValidator(check_duration)]
DurationOrNone = Annotated[timedelta, BeforeValidator(parse_duration), AfterValidator(_check_wait)]
"""A duration that may be nothing: `0s`."""
DurationOrOff = Annotated[
    timedelta | None,
    BeforeValidator(_parse_duration_or_off),
    AfterValidator(_check_duration_or_off),
]
"""A duration; None if it is `off`."""
KeptAlike = Annotated[timedelta | Literal["resolved"] | None, BeforeValidator(_parse_kept_alike)]
"""The same, or `resolved`: as long as what is resolved in another way."""
Size = Annotated[int, BeforeValidator(_parse_size), AfterValidator(_check_size)]
QueueName = Annotated[str, AfterValidator(check_queue_name)]
OptionalQueue = Annotated[QueueName | None, BeforeValidator(_read_off)]


_LONGEST_HEADER = 255
"""Bytes: AMQP's short string."""


def _check_header_name(name: str) -> str:
    if not 0 < len(name.encode()) <= _LONGEST_HEADER:
        raise ValueError(f"must be the name of a header: 1 to {_LONGEST_HEADER} bytes")
    return name


HeaderName = Annotated[str, AfterValidator(_check_header_name)]


def _check_dropped(pattern: str) -> str:
    why_not = why_not_dropped(pattern)
    if why_not is not None:
        raise ValueError(why_not)
    return pattern


DroppedHeader = Annotated[HeaderName, AfterValidator(_check_dropped)]
