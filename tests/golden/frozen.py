"""A database whose clock stands still, and that says which statements each verb sends."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import psycopg
from sqlalchemy import event, make_url

from retrier.store.engine.database import Database, DatabaseOptions
from retrier.store.engine.transaction import Transaction
from tests.support.flaky_database import name_of
from tests.support.frozen_clock import FrozenClock

T = TypeVar("T")
Sent = list[tuple[str, tuple[str, ...]]]
"""The name of each verb that ran, and the statements that it has sent."""


class FrozenTime(FrozenClock):
    """The clock of the process and that of its database, which are one."""

    def __init__(self, elapsed: float = 0.0) -> None:
        super().__init__()
        self._elapsed = elapsed
        self.told: Callable[[datetime], None] = lambda _now: None

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        self.told(self.now())

    @property
    def elapsed(self) -> float:
        return self._elapsed


def freeze_postgres(url: str, clock: FrozenTime) -> Callable[[], None]:
    """Give the database a clock of its own: a function that is found before that of the server.

    Return what ends it.
    """
    place = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    name = make_url(url).database

    connection = psycopg.connect(place, autocommit=True)

    def execute(*statements: str) -> None:
        for each in statements:
            connection.execute(each.encode())

    def tell(now: datetime) -> None:
        execute(f"UPDATE frozen.clock SET at = '{now.isoformat()}'")  # noqa: S608 - ours

    execute(
        "CREATE SCHEMA IF NOT EXISTS frozen",
        "CREATE TABLE IF NOT EXISTS frozen.clock (at timestamptz)",
        "INSERT INTO frozen.clock SELECT now() WHERE NOT EXISTS (SELECT FROM frozen.clock)",
        "CREATE OR REPLACE FUNCTION frozen.clock_timestamp() RETURNS timestamptz "
        "LANGUAGE sql VOLATILE AS 'SELECT at FROM frozen.clock'",
        f'ALTER DATABASE "{name}" SET search_path = public, frozen, pg_catalog',
        f'ALTER DATABASE "{name}" SET synchronous_commit = off',
    )
    tell(clock.now())
    clock.told = tell
    return connection.close


class FrozenDatabase(Database):
    """A database of such a clock. `sent` is told what each of its verbs sends."""

    def __init__(
        self, options: DatabaseOptions, file: Any = None, *, clock: FrozenTime, sent: Sent
    ) -> None:
        # Here no time passes: the server must not end a transaction because this process stood still.
        super().__init__(replace(options, lease=timedelta(hours=1)), file)
        self._clock = clock
        self._sent = sent
        self._here = threading.local()
        event.listen(self.engine, "connect", self._freeze)
        event.listen(self.engine, "before_cursor_execute", self._tell)

    def transact(self, verb: Callable[[Transaction], T]) -> T:
        with self._noting(verb):
            return super().transact(verb)

    def read(self, verb: Callable[[Transaction], T]) -> T:
        with self._noting(verb):
            return super().read(verb)

    def apart(self, connections: int, answer_limit: timedelta | None = None) -> Database:
        options = DatabaseOptions(
            url=self._options.url, connections=connections, answer_limit=answer_limit
        )
        other = FrozenDatabase(options, self._file, clock=self._clock, sent=self._sent)
        self._apart.append(other)
        return other

    @contextmanager
    def _noting(self, verb: Callable[[Transaction], T]) -> Iterator[None]:
        self._here.statements = []
        try:
            yield
        finally:
            self._sent.append((name_of(verb), tuple(self._here.statements)))

    def _freeze(self, connection: Any, _record: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.create_function("strftime", 2, self._time)
            connection.execute("PRAGMA reverse_unordered_selects = ON")
            connection.execute("PRAGMA synchronous = OFF")

    def _time(self, form: str, when: str) -> str:
        assert (form, when) == ("%Y-%m-%d %H:%M:%f", "now")
        return self._clock.now().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]

    def _tell(self, _conn: object, _cursor: object, statement: str, *_rest: object) -> None:
        if hasattr(self._here, "statements"):
            self._here.statements.append(" ".join(statement.split()))
