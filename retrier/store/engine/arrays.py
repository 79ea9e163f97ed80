"""Any number of values as one parameter."""

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy.engine import Dialect
from sqlalchemy.sql import ColumnElement
from sqlalchemy.types import Integer, Text, TypeDecorator, UserDefinedType

from retrier.store.schema.types import Digest, Id, Number, UtcTime


class Array(UserDefinedType[Sequence[Any]]):
    """A PostgreSQL array that is sent as an array literal (text).

    psycopg would dump it element by element, which takes longer than the server needs for the
    whole statement.
    """

    cache_ok = True
    render_bind_cast = True

    def __init__(self, kind: str) -> None:
        """`kind` is the type of the elements: TEXT, UUID, BIGINT, TIMESTAMPTZ or BYTEA (of digits)."""
        self.kind = kind

    def get_col_spec(self, **_: object) -> str:
        """Return the type to which the server casts the literal."""
        return f"{self.kind}[]"

    def bind_processor(self, dialect: Dialect) -> Callable[[Sequence[Any] | None], str | None]:  # noqa: ARG002 - SQLAlchemy's signature
        """Return the function that writes the literal."""
        write = _WRITERS[self.kind]
        return lambda values: None if values is None else write(values)


class JsonArray(TypeDecorator[Sequence[Any]]):
    """A JSON array, which SQLite expands with `json_each`."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Sequence[Any] | None, dialect: Dialect) -> str:  # noqa: ARG002 - SQLAlchemy's signature
        """Write the array."""
        return json.dumps(list(value or ()))


def array_like(column: ColumnElement[Any]) -> Array:
    """Return the array type for values of this column."""
    match column.type:
        case Id():
            return Array("UUID")
        case Digest():
            return Array("BYTEA")
        case kind if isinstance(kind, type(Number)):
            return Array("BIGINT")
        case Integer():
            return Array("BIGINT")
        case UtcTime():
            return Array("TIMESTAMPTZ")
        case _:
            return Array("TEXT")


def write_array(texts: Sequence[str | None]) -> str:
    """Return the array literal of these texts (PostgreSQL, 8.15.6: array input)."""
    return f"{{{','.join(map(_quote, texts))}}}"


def _quote(text: str | None) -> str:
    if text is None:
        return "NULL"
    if "\\" in text or '"' in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _write_plain(values: Sequence[object]) -> str:
    """Write numbers or ids, which need no quotes."""
    return f"{{{','.join(map(str, values))}}}"


def _write_times(values: Sequence[datetime]) -> str:
    """Write moments with their offset."""
    return write_array([each.isoformat() for each in values])


def _write_digests(values: Sequence[str]) -> str:
    """Write `bytea` values in hexadecimal form."""
    return write_array([f"\\x{digits}" for digits in values])


_WRITERS: dict[str, Callable[[Sequence[Any]], str]] = {
    "TEXT": write_array,
    "UUID": _write_plain,
    "BIGINT": _write_plain,
    "TIMESTAMPTZ": _write_times,
    "BYTEA": _write_digests,
}
