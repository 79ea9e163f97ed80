"""Column types that mean the same on PostgreSQL and SQLite."""

from datetime import UTC, datetime
from enum import StrEnum

from sqlalchemy import JSON, BigInteger, CheckConstraint, DateTime, Dialect, Integer, MetaData
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeDecorator

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
    }
)


class UtcTime(TypeDecorator[datetime]):
    """A moment in UTC: `timestamptz` on PostgreSQL, text without offset on SQLite."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Turn any offset into UTC; SQLite stores no offset."""
        if value is None:
            return None
        utc = value.astimezone(UTC)
        return utc.replace(tzinfo=None) if dialect.name == "sqlite" else utc

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - SQLAlchemy's signature
        """Give the moment its offset back."""
        if value is None:
            return None
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


Json = JSON().with_variant(JSONB(), "postgresql")
Number = BigInteger().with_variant(Integer(), "sqlite")
"""64 bits; SQLite numbers rows by itself only where the type is called INTEGER."""


def one_of(column: str, values: type[StrEnum]) -> CheckConstraint:
    """Constrain a column to the values of an enum."""
    names = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({names})", name=f"{column}_known")
