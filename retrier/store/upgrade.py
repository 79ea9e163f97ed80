"""The schema of a database: its revision, and its upgrade; foreign keys are checked at the end."""

import re
from pathlib import Path

from sqlalchemy import text

from retrier.errors import ConfigurationError, RetrierError
from retrier.store.engine.database import Database, bind, reading
from retrier.store.engine.transaction import Transaction
from retrier.store.lease import end_lease
from retrier.store.revisions import (
    MIGRATIONS,
    SchemaRevision,
    find_known,
    read_revision,
    why_newer,
)
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

_BEFORE_1_0 = re.compile("[01][0-9]{3}")
"""The revisions of versions before 1.0, of which none was released: 0001 to 0006, 1001 to 1029."""

_NOTHING_CARRIED_OVER = (
    "a version before 1.0, which was never released, has made it, and it cannot be upgraded. Send "
    "back what is still in it with that version, then name a new, empty database"
)

UNFINISHED = "unfinished copy"
"""Stands where the revision stands, until `db copy` is done: no version of Retrier knows it."""

_IS_UNFINISHED = (
    "is an unfinished copy of another database, and nothing may use it: run the same `retrier db "
    "copy` again to finish it, or name another database"
)


def upgrade_schema(db: Database, migrations: Path = MIGRATIONS) -> SchemaRevision:
    """Apply all missing revisions in one transaction; return the revision before that.

    Safe when several instances start at once. Raises DatabaseUnavailable, and ConfigurationError
    for a database that was made before 1.0.
    """
    # Look first: only an upgrade has to wait for its lock without a limit.
    found = find_revision(db, migrations)
    if found.is_current:
        return found
    return db.restructure(bind(_upgrade, db.place, migrations))


def find_revision(db: Database, migrations: Path = MIGRATIONS) -> SchemaRevision:
    """Return the database's revision. Raises DatabaseUnavailable and ConfigurationError.

    One that this version does not know is refused: it is newer, and nothing leads back from it.
    """
    found = _find_revision(db, migrations)
    if found.current == UNFINISHED:
        raise ConfigurationError([f"database.url: the database at {db.place} {_IS_UNFINISHED}"])
    if found.current is not None and _BEFORE_1_0.fullmatch(found.current):
        where = f"the database at {db.place} is at revision {found.current}"
        raise ConfigurationError([f"database.url: {where}: {_NOTHING_CARRIED_OVER}"])
    if not (found.current is None or found.is_current or found.current in find_known(migrations)):
        raise why_newer(db.place, found)
    return found


@reading
def _find_revision(tx: Transaction, migrations: Path) -> SchemaRevision:
    return read_revision(tx, migrations)


def _upgrade(tx: Transaction, place: str, migrations: Path) -> SchemaRevision:
    lock_upgrades(tx)
    before = read_revision(tx, migrations)
    if not before.is_current:
        if before.current is not None:
            # First of all: whoever holds the lease knows only the tables as they were. It would go
            # on, and send what it does not understand.
            end_lease(tx)
        make_schema(tx, place, before, migrations)
    return before


def lock_upgrades(tx: Transaction) -> None:
    """Let nobody else change tables until this transaction ends, which has no time limit now."""
    tx.sql.without_timeouts(tx.conn, _UPGRADE_LOCK)


def make_schema(
    tx: Transaction, place: str, before: SchemaRevision, migrations: Path = MIGRATIONS
) -> None:
    """Bring the tables from that revision to the newest one, and make the views anew.

    Raises DatabaseUnavailable, StrayRows.
    """
    take_views_away(tx)
    _apply_missing(tx, place, migrations, before)
    put_views_back(tx)
    refuse_strays(tx)


def become_unfinished(tx: Transaction) -> None:
    """Let no version of Retrier use this database until `become_current`."""
    tx.execute(_SET_REVISION, {"revision": UNFINISHED})


def become_current(tx: Transaction, revision: str) -> None:
    """Say that the database is at this revision, which it is."""
    tx.execute(_SET_REVISION, {"revision": revision})


_SET_REVISION = text("UPDATE alembic_version SET version_num = :revision")


def _apply_missing(tx: Transaction, place: str, migrations: Path, before: SchemaRevision) -> None:
    # Only who upgrades waits until it is loaded.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(migrations))
    config.attributes["connection"] = tx.conn
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        # A newer version has upgraded the database since somebody looked.
        raise why_newer(place, before) from error
