"""Databases for tests: SQLite is the fake, PostgreSQL repeats every test where there is one."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from uuid import uuid4

import psycopg
from sqlalchemy import make_url

from retrier.store.engine.database import Database, DatabaseOptions
from retrier.store.schema import metadata
from retrier.store.upgrade import upgrade_schema


def sqlite_url(folder: Path) -> str:
    """Return the URL of a new SQLite file in the folder."""
    return f"sqlite:///{folder}/{uuid4().hex}.db"


@contextmanager
def temporary_postgres(
    server: str, template: str = "template1", options: str = ""
) -> Iterator[str]:
    """Make a database of a random name on the server; give its URL; drop it afterwards.

    It is a copy of the template, to which nobody may be connected. `options` are more words of
    CREATE DATABASE.
    """
    name = f"retrier_test_{uuid4().hex[:12]}"
    admin = make_url(server).set(drivername="postgresql")
    with psycopg.connect(admin.render_as_string(hide_password=False), autocommit=True) as conn:
        conn.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" {options}')
        try:
            yield make_url(server).set(database=name).render_as_string(hide_password=False)
        finally:
            conn.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def path_of(url: str) -> Path:
    """Return the file of an SQLite URL."""
    return Path(make_url(url).database or "")


def open_database(url: str) -> Database:
    """Open a database as it is."""
    return Database(DatabaseOptions(url=url))


def open_upgraded(url: str) -> Database:
    """Open a database at the newest revision."""
    db = open_database(url)
    upgrade_schema(db)
    return db


class Borrowed(Database):
    """A database of the whole run as one test has it: what is listened to ends with the test.

    Connections, and statements that were compiled once, are everybody's.
    """

    def __init__(self, shared: Database) -> None:
        vars(self).update(vars(shared))
        self.engine = shared.engine.execution_options()
        self._apart = []

    def give_back(self) -> None:
        """Close what the test has opened apart."""
        for other in self._apart:
            other.dispose()


def empty(db: Database) -> None:
    """Delete every row and begin to count anew, so that the next test starts from nothing."""
    with db.engine.begin() as conn:
        for statement in _statements_that_empty(sqlite=db.is_sqlite):
            conn.exec_driver_sql(statement)


@cache
def _statements_that_empty(*, sqlite: bool) -> tuple[str, ...]:
    # Not TRUNCATE: it makes new files, which takes a hundred times as long for a few rows.
    deletes = [f"DELETE FROM {table.name}" for table in reversed(metadata.sorted_tables)]  # noqa: S608
    if sqlite:
        return (*deletes, "DELETE FROM sqlite_sequence")
    # In one go: each would be a question and an answer. ALTER SEQUENCE would make a new file.
    return ("; ".join([*deletes, "SELECT setval('failure_seq', 1, false)"]),)
