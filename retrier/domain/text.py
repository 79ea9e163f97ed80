"""Text that a database can store and a person can read, made of whatever came over the wire."""

from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from math import isfinite

COLUMN_BYTES = 1024
"""What an indexed column holds, in bytes of UTF-8."""

LONG_BYTES = 64 * 1024
"""What a column that is only shown holds: stack traces and exception messages."""

DEEPEST = 32
"""So deep at most are headers shown."""

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
