"""Text from outside: cleaned and cut to length, and shortened ids turned into ranges."""

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from decimal import Decimal
from math import isfinite
from operator import attrgetter
from typing import Any

from retrier.domain.failed_message import FailureDetails
from retrier.domain.identity import canonical, is_guid
from retrier.domain.values import dataclass

COLUMN_BYTES = 1024
"""Bytes of UTF-8 that an indexed column holds."""

LONG_BYTES = 64 * 1024
"""Bytes of UTF-8 that a column without index holds: stack traces and exception messages."""

DEEPEST = 32
"""Levels of nested headers that are shown; TOO_DEEP stands for deeper ones."""

TOO_DEEP = "(nested too deeply)"


def clean(text: str, limit: int = COLUMN_BYTES) -> str:
    """Return text without NUL and lone surrogates, cut to `limit` bytes of UTF-8.

    PostgreSQL refuses both characters, and an index refuses long keys.
    """
    if len(text) <= limit and text.isascii() and "\0" not in text:
        return text
    return _encode(text)[:limit].decode("utf-8", "ignore")


def jsonable(headers: Mapping[str, object]) -> dict[str, object]:
    """Return a copy that JSON and every database can hold, for people and queries.

    Bytes become text if they are UTF-8, else base64; times ISO 8601; decimals, NaN and
    infinities text. The exact bytes stay in the raw properties.
    """
    return _table(headers, 0)


def _encode(text: str) -> bytes:
    return text.replace("\0", "").encode("utf-8", "ignore")


def _plain(text: str) -> str:
    if text.isascii() and "\0" not in text:
        return text
    return _encode(text).decode()


def _table(table: Mapping[object, object] | Mapping[str, object], depth: int) -> dict[str, object]:
    return {
        _plain(str(key)): _plain(value) if isinstance(value, str) else _value(value, depth)
        for key, value in table.items()
    }


def _value(value: object, depth: int) -> object:
    match value:
        case str():
            return _plain(value)
        case None | bool() | int():
            return value
        case dict() | list() | tuple():
            return _nested(value, depth + 1)
        case _:
            return _scalar(value)


def _nested(value: dict[object, object] | list[object] | tuple[object, ...], depth: int) -> object:
    if depth > DEEPEST:
        return TOO_DEEP
    if isinstance(value, dict):
        return _table(value, depth)
    return [_value(each, depth) for each in value]


def _scalar(value: object) -> object:
    match value:
        case float():
            return value if isfinite(value) else str(value)
        case bytes():
            return _bytes(value)
        case datetime():
            return value.isoformat()
        case Decimal() | _:
            return _plain(str(value))


def _bytes(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return b64encode(value).decode()
    return text if "\0" not in text else b64encode(value).decode()


_LONG = ("exception_message", "stack_trace", "completed_steps")
_TIMES_AND_COUNTS = ("time_of_failure", "time_sent", "attempts_reported", "crashes")
_SHORT = tuple(
    field.name for field in fields(FailureDetails) if field.name not in (*_LONG, *_TIMES_AND_COUNTS)
)

LIMITS = {**dict.fromkeys(_SHORT, COLUMN_BYTES), **dict.fromkeys(_LONG, LONG_BYTES)}
"""Bytes of UTF-8 that each text of a failure may have."""

_short_texts, _long_texts = attrgetter(*_SHORT), attrgetter(*_LONG)


def out_of_limits(details: FailureDetails) -> dict[str, Any]:
    """Return the fields that break LIMITS or need cleaning, cut and cleaned; mostly none."""
    if _fits(_short_texts(details), COLUMN_BYTES) and _fits(_long_texts(details), LONG_BYTES):
        return {}
    texts = ((name, getattr(details, name), limit) for name, limit in LIMITS.items())
    fitting = [(name, text, clean(text, limit)) for name, text, limit in texts if text]
    return {name: cleaned for name, text, cleaned in fitting if cleaned is not text}


def _fits(texts: tuple[str | None, ...], limit: int) -> bool:
    """Say whether no text needs cleaning. One check of all joined is cheaper than one of each."""
    together = "".join([text for text in texts if text])
    return clean(together, limit) is together


SHORTEST = 8
"""Characters that a shortened id must have: fewer would match too many ids."""

_FIRST = "00000000-0000-0000-0000-000000000000"
_LAST = "ffffffff-ffff-ffff-ffff-ffffffffffff"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdRange:
    """Ids from the first to the last, both included."""

    first: str
    last: str


def ids_beginning(text: str) -> IdRange | None:
    """Return the range of ids that begin with the text, upper or lower case; None if no id can.

    Both ends are whole ids, so that every collation sorts them and the ids alike: the dashes are
    all in the same places, and digits come before letters.
    """
    beginning = canonical(text)
    whole = beginning + _FIRST[len(beginning) :]
    if len(beginning) < SHORTEST or not is_guid(whole):
        return None
    return IdRange(first=whole, last=beginning + _LAST[len(beginning) :])


def count_messages(number: int) -> str:
    """Return a number of messages in words: `1 message`, `20 messages`."""
    return count_of(number, "message")


def count_of(number: int, one: str, many: str = "") -> str:
    """Return a number of things in words; of which several are called as the one, with an s."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"


_PASSWORD = re.compile(r"(://[^:/@]*):.*@")
_PASSWORD_PARAMETER = re.compile(
    r"([?&](?:\w*(?:password|secret)|scram_\w+_key)=)[^&]*", re.IGNORECASE
)


def redact(url: str) -> str:
    """Show a URL with *** in place of its password."""
    return _PASSWORD_PARAMETER.sub(r"\1***", _PASSWORD.sub(r"\1:***@", url))
