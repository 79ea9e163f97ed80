"""Revisions of the schema: the one that a database is at, and the newest one that we know."""

from functools import cache
from pathlib import Path

from sqlalchemy import inspect, text

from retrier.domain.values import dataclass
from retrier.errors import DatabaseRefused
from retrier.store import schema
from retrier.store.engine.transaction import Transaction

MIGRATIONS = Path(schema.__file__).parent / "migrations"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRevision:
    """The revision of a database, and the one that this version of Retrier needs."""

    current: str | None
    wanted: str

    @property
    def is_current(self) -> bool:
        """Whether no upgrade is needed."""
        return self.current == self.wanted


def read_revision(tx: Transaction, migrations: Path = MIGRATIONS) -> SchemaRevision:
    """Return what the database says of itself, and the newest revision."""
    is_told = inspect(tx.conn).has_table("alembic_version")
    current = tx.execute(_CURRENT).scalar_one_or_none() if is_told else None
    return SchemaRevision(current=current, wanted=find_newest(migrations))


@cache
def find_newest(migrations: Path = MIGRATIONS) -> str:
    """Return the newest revision."""
    return max(find_known(migrations), default="")


def find_known(migrations: Path = MIGRATIONS) -> set[str]:
    """Return all revisions that lead to the newest one: the numbers that their files begin with.

    Alembic runs the modules of all revisions to find the last one, and takes a tenth of a start to
    be loaded. Few starts upgrade a database.
    """
    return {each.name.partition("_")[0] for each in (migrations / "versions").glob("[0-9]*.py")}


_CURRENT = text("SELECT version_num FROM alembic_version")


def refuse_newer(tx: Transaction, place: str = "") -> None:
    """Refuse a database that a newer version has upgraded while this process was running.

    Revisions are numbers of four digits. Raises DatabaseRefused.
    """
    current = tx.execute(_CURRENT).scalar_one_or_none() or ""
    if current > (newest := find_newest()):
        raise why_newer(place, SchemaRevision(current=current, wanted=newest))


def why_newer(place: str, found: SchemaRevision) -> DatabaseRefused:
    """Return why a database of this revision is refused."""
    return DatabaseRefused(
        f"the database{f' at {place}' if place else ''} is at revision {found.current}, and this "
        f"version knows only revisions up to {found.wanted}: a newer version has upgraded it"
    )
