"""Any number of texts as one parameter."""

import json
from collections.abc import Callable, Sequence

from sqlalchemy.engine import Dialect
from sqlalchemy.types import Text, TypeDecorator, UserDefinedType


class TextArray(UserDefinedType[Sequence[str]]):
    """An array that is sent as its literal.

    The driver dumps an array element by element, which takes it longer than the server needs for
    the whole statement.
    """

    cache_ok = True
    render_bind_cast = True

    def get_col_spec(self, **_: object) -> str:
        """Name the type, by which the server reads the literal."""
        return "TEXT[]"

    def bind_processor(self, dialect: Dialect) -> Callable[[Sequence[str] | None], str | None]:  # noqa: ARG002 - SQLAlchemy's signature
        """Hand over the literal."""
        return lambda texts: None if texts is None else write_array(texts)


class JsonTexts(TypeDecorator[Sequence[str]]):
    """A JSON array, which SQLite takes apart."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Sequence[str] | None, dialect: Dialect) -> str:  # noqa: ARG002 - SQLAlchemy's signature
        """Write the array."""
        return json.dumps(list(value or ()))


def write_array(texts: Sequence[str]) -> str:
    """Return the array literal of these texts (PostgreSQL, 8.15.6: array input)."""
    if not texts:
        return "{}"
    quoted = '","'.join(map(_escape, texts))
    return f'{{"{quoted}"}}'


def _escape(text: str) -> str:
    if "\\" in text or '"' in text:
        return text.replace("\\", "\\\\").replace('"', '\\"')
    return text
