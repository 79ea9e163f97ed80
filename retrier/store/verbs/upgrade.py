"""Bringing a database to the newest revision of the schema."""

from dataclasses import dataclass
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, text

from retrier.errors import DatabaseUnavailable
from retrier.store.database import Database

_UPGRADE_LOCK = "7263, 2"
"""Two numbers that name the lock under which one instance upgrades and the others wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRevision:
    """Where a database stands, and where this version of Retrier wants it."""

    current: str | None
    wanted: str

    @property
    def is_current(self) -> bool:
        """Whether nothing has to be done."""
        return self.current == self.wanted


def upgrade_schema(db: Database) -> SchemaRevision:
    """Apply all missing revisions in one transaction; return where it stood before.

    Safe when several instances start at once. Raises DatabaseUnavailable.
    """
    # A look first: only what is to be changed has to be waited for without limit.
    found = find_revision(db)
    return found if found.is_current else db.transact(lambda conn: _upgrade(db, conn))


def find_revision(db: Database) -> SchemaRevision:
    """Return where the database stands. Raises DatabaseUnavailable."""
    return db.read(_find)


def _upgrade(db: Database, conn: Connection) -> SchemaRevision:
    if not db.is_sqlite:
        db.sql.take_time(conn)
        conn.execute(text(f"SELECT pg_advisory_xact_lock({_UPGRADE_LOCK})"))
    before = _find(conn)
    if not before.is_current:
        _apply_missing(db, conn, before)
    return before


def _apply_missing(db: Database, conn: Connection, before: SchemaRevision) -> None:
    config = _config()
    config.attributes["connection"] = conn
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        # A revision that this version has not heard of: a newer one has been at work here.
        raise DatabaseUnavailable(
            f"the database at {db.place} is at revision {before.current}, and this version "
            f"knows them up to {before.wanted} only"
        ) from error


def _find(conn: Connection) -> SchemaRevision:
    wanted = ScriptDirectory.from_config(_config()).get_current_head()
    current = MigrationContext.configure(conn).get_current_revision()
    return SchemaRevision(current=current, wanted=wanted or "")


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config
