"""Databases for tests: SQLite is the fake, PostgreSQL repeats every test where there is one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
from alembic.script import ScriptDirectory
from sqlalchemy import make_url, text

from retrier.store.engine.database import Database, DatabaseOptions
from retrier.store.schema import metadata
from retrier.store.verbs.upgrade import MIGRATIONS, upgrade_schema


def sqlite_url(folder: Path) -> str:
    """Return the URL of a new SQLite file in the folder."""
    return f"sqlite:///{folder}/{uuid4().hex}.db"


@contextmanager
def temporary_postgres(server: str) -> Iterator[str]:
    """Make a database of a random name on the server; give its URL; drop it afterwards."""
    name = f"retrier_test_{uuid4().hex[:12]}"
    admin = make_url(server).set(drivername="postgresql")
    with psycopg.connect(admin.render_as_string(hide_password=False), autocommit=True) as conn:
        conn.execute(f'CREATE DATABASE "{name}"')
        try:
            yield make_url(server).set(database=name).render_as_string(hide_password=False)
        finally:
            conn.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def path_of(url: str) -> Path:
    """Return the file of an SQLite URL."""
    return Path(make_url(url).database or "")


def newest_revision() -> str:
    """Return the revision that this version wants."""
    return ScriptDirectory(str(MIGRATIONS)).get_current_head() or ""


def open_database(url: str) -> Database:
    """Open a database as it is."""
    return Database(DatabaseOptions(url=url))


def open_upgraded(url: str) -> Database:
    """Open a database at the newest revision."""
    db = open_database(url)
    upgrade_schema(db)
    return db


def empty(db: Database) -> None:
    """Delete every row, so that the next test starts from nothing."""
    # Not TRUNCATE: it makes new files, which takes a hundred times as long for a few rows.
    with db.engine.begin() as conn:
        for table in reversed(metadata.sorted_tables):
            conn.execute(table.delete())
        conn.execute(text("ALTER SEQUENCE failure_seq RESTART"))
