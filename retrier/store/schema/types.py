"""Column types that mean the same on PostgreSQL and SQLite."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    BindParameter,
    CheckConstraint,
    Column,
    ColumnElement,
    DateTime,
    Dialect,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
    cast,
)
from sqlalchemy.dialects.postgresql import JSONB, TSVECTOR
from sqlalchemy.types import TypeDecorator, TypeEngine, UserDefinedType

from retrier.domain.words import GAP

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
    }
)

ID_LENGTH = 36
"""Characters of an id in its text form."""


def in_utc(value: datetime | None) -> datetime | None:
    """Return a moment with the offset of UTC."""
    return value if value is None or value.tzinfo is UTC else value.astimezone(UTC)


def as_bytes(digits: str | None) -> bytes | None:
    """Return the bytes of hexadecimal digits."""
    return None if digits is None else bytes.fromhex(digits)


class UtcTime(TypeDecorator[datetime]):
    """A moment in UTC: `timestamptz` on PostgreSQL, text without offset on SQLite."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Turn any offset into UTC; SQLite stores no offset."""
        utc = in_utc(value)
        return utc.replace(tzinfo=None) if utc and dialect.name == "sqlite" else utc

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - SQLAlchemy's signature
        """Give the moment its offset back."""
        if value is None:
            return None
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


class PostgresUuid(UserDefinedType[str]):
    """PostgreSQL's `uuid`, as text in Python: each connection gets loaders for that."""

    cache_ok = True
    render_bind_cast = True

    def get_col_spec(self, **_: object) -> str:
        """Return the name of the type."""
        return "UUID"


class Id(TypeDecorator[str]):
    """An id of 128 bits: `uuid` on PostgreSQL, its text form on SQLite. In lower case."""

    impl = String(ID_LENGTH)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return `uuid` on PostgreSQL, text elsewhere."""
        uuid: TypeEngine[Any] = PostgresUuid()
        text: TypeEngine[Any] = String(ID_LENGTH)
        return dialect.type_descriptor(uuid if dialect.name == "postgresql" else text)


class Digest(TypeDecorator[str]):
    """A hash: bytes in the database, hexadecimal digits in Python."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:  # noqa: ARG002 - SQLAlchemy's signature
        """Return the bytes."""
        return as_bytes(value)

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - SQLAlchemy's signature
        """Return the digits."""
        return None if value is None else bytes(value).hex()


class Words(TypeDecorator[Sequence[str]]):
    """Words in a row: a `tsvector` on PostgreSQL, text with blanks between them on SQLite.

    The words are letters and digits, which neither has to be told apart from its own marks. A GAP
    takes a place and is no word.
    """

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return `tsvector` on PostgreSQL, text elsewhere."""
        vector: TypeEngine[Any] = TSVECTOR()
        text: TypeEngine[Any] = Text()
        return dialect.type_descriptor(vector if dialect.name == "postgresql" else text)

    def bind_expression(self, bindvalue: BindParameter[Any]) -> ColumnElement[Any] | None:
        """Have PostgreSQL read the places that stand in the text, and not count words itself."""
        return cast(bindvalue, self)

    def process_bind_param(self, value: Sequence[str] | None, dialect: Dialect) -> str | None:
        """Write the words; for PostgreSQL each with its places."""
        if value is None or dialect.name == "sqlite":
            return None if value is None else " ".join(value)
        places: defaultdict[str, list[str]] = defaultdict(list)
        for place, word in enumerate(value, start=1):
            places[word].append(str(place))
        places.pop(GAP, None)
        return " ".join(f"{word}:{','.join(each)}" for word, each in places.items())


Json = JSON().with_variant(JSONB(), "postgresql")
ByCodePoint = Text().with_variant(Text(collation="C"), "postgresql")
"""Text that is compared and sorted by code point on both databases, whatever collation they have."""

Number = BigInteger().with_variant(Integer(), "sqlite")
"""64 bits; SQLite numbers rows itself only if the column's type is named INTEGER."""


def is_json(column: Column[Any]) -> bool:
    """Say whether a column holds JSON."""
    return isinstance(column.type, JSON)


def one_of(column: str, values: Iterable[str]) -> CheckConstraint:
    """Return the constraint that a column has one of these values."""
    names = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({names})", name=f"{column}_known")
