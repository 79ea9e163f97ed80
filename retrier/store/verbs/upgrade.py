"""The schema of a database: its revision, and its upgrade; foreign keys are checked at the end."""

from dataclasses import dataclass
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import text

from retrier.errors import ConfigurationError, DatabaseUnavailable, RetrierError
from retrier.store import schema
from retrier.store.engine.database import Database, bind, reading
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import VIEWS


class StrayRows(RetrierError):
    """A revision has left rows that refer to missing rows: the upgrade is rolled back."""


def take_views_away(tx: Transaction) -> None:
    """Drop our views: a table that a view reads cannot be rebuilt. They are made anew later."""
    for name in reversed(list(VIEWS)):
        tx.execute(text(f"DROP VIEW IF EXISTS {name}"))


def put_views_back(tx: Transaction) -> None:
    """Create our views as this version defines them."""
    for name, query in VIEWS.items():
        tx.execute(text(f"CREATE VIEW {name} AS {query}"))


def refuse_strays(tx: Transaction) -> None:
    """Check all foreign keys of SQLite, which were off during the upgrade. Raises StrayRows.

    PostgreSQL has checked its foreign keys all the time.
    """
    if strays := tx.sql.find_strays(tx.conn):
        raise StrayRows(
            "the upgrade was undone: it would have left rows that refer to nothing in "
            f"{', '.join(sorted(strays))}"
        )


_UPGRADE_LOCK = "7263, 2"
"""The key (two numbers) of the lock: one instance upgrades while the others wait."""

_BEFORE_THE_FIRST_RELEASE = frozenset({"0001", "0002", "0003", "0004", "0005", "0006"})

_NOTHING_CARRIED_OVER = (
    "was made by a version before the first release and cannot be upgraded; name a new, empty "
    "database"
)

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


def upgrade_schema(db: Database, migrations: Path = MIGRATIONS) -> SchemaRevision:
    """Apply all missing revisions in one transaction; return the revision before that.

    Safe when several instances start at once. Raises DatabaseUnavailable, and ConfigurationError
    for a database that was made before the first release.
    """
    # Look first: only an upgrade has to wait for its lock without a limit.
    found = find_revision(db, migrations)
    if found.is_current:
        return found
    return db.restructure(bind(_upgrade, db.place, migrations))


def find_revision(db: Database, migrations: Path = MIGRATIONS) -> SchemaRevision:
    """Return the database's revision. Raises DatabaseUnavailable and ConfigurationError."""
    found = _find_revision(db, migrations)
    if found.current in _BEFORE_THE_FIRST_RELEASE:
        raise ConfigurationError(
            [f"database.url: the database at {db.place} {_NOTHING_CARRIED_OVER}"]
        )
    return found


@reading
def _find_revision(tx: Transaction, migrations: Path) -> SchemaRevision:
    return _find(tx, migrations)


def _upgrade(tx: Transaction, place: str, migrations: Path) -> SchemaRevision:
    tx.sql.without_timeouts(tx.conn, _UPGRADE_LOCK)
    before = _find(tx, migrations)
    if before.is_current:
        return before
    take_views_away(tx)
    _apply_missing(tx, place, migrations, before)
    put_views_back(tx)
    refuse_strays(tx)
    return before


def _apply_missing(tx: Transaction, place: str, migrations: Path, before: SchemaRevision) -> None:
    config = _config(migrations)
    config.attributes["connection"] = tx.conn
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        # This version does not know the revision: a newer one has upgraded the database.
        raise DatabaseUnavailable(
            f"the database at {place} is at revision {before.current}, and this version "
            f"knows only revisions up to {before.wanted}"
        ) from error


def _find(tx: Transaction, migrations: Path) -> SchemaRevision:
    wanted = ScriptDirectory.from_config(_config(migrations)).get_current_head()
    current = MigrationContext.configure(tx.conn).get_current_revision()
    return SchemaRevision(current=current, wanted=wanted or "")


def _config(migrations: Path) -> Config:
    config = Config()
    config.set_main_option("script_location", str(migrations))
    return config
