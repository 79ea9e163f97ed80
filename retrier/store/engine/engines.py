"""Engines for PostgreSQL and SQLite: pragmas, session settings, timeouts."""

import json
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from math import ceil
from pathlib import Path
from select import POLLIN, poll
from time import monotonic
from typing import Any

from psycopg import OperationalError
from psycopg.pq import Format
from sqlalchemy import URL, Connection, Dialect, Engine, create_engine, event
from sqlalchemy.engine.interfaces import ExceptionContext, ExecutionContext
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry

from retrier.errors import DataRefused
from retrier.private_files import NOT_ASKED, is_encrypted, make_private_file, make_private_folder
from retrier.store.engine.pool import RestingPool
from retrier.store.engine.postgres_dialect import read_ids_as_text
from retrier.store.engine.refusals import describe_expired
from retrier.store.engine.sessions import SessionRefused, SessionSettings, TimedConnection
from retrier.store.engine.sql_dialect import IN_BINARY, READING, RESTRUCTURING
from retrier.store.engine.sqlite_dialect import SqliteFile

_USED = "last used"
_SYSTEM = "system"
"""The value of sslrootcert that means the machine's own authorities."""
PING_AFTER_IDLE = 1.0
"""Seconds after its last use during which a connection is used again without a ping."""

_MORE = 10
"""How many connections more than usual a busy moment may open."""

_IN_MEMORY = ":memory:"
_PRIMARY_CODE = 0xFF
_FILE_ERRORS = frozenset(
    {
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_NOTADB,
    }
)
"""SQLite errors after which a connection may stay broken although the file is usable again."""


def make_postgres(
    url: URL,
    *,
    said: SessionSettings,
    lease: timedelta,
    connect_timeout: timedelta,
    connections: int = 10,
) -> Engine:
    """Return an engine whose sessions say all that they need; no answer takes a lease or more."""
    connect_args: dict[str, Any] = {
        # 0 means "no limit" to the driver.
        "connect_timeout": max(1, ceil(connect_timeout.total_seconds())),
        "application_name": "retrier",
        # Else the driver would refuse texts that the role's encoding cannot hold.
        "client_encoding": "utf8",
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        # TCP sends no keep-alive while data is unacknowledged: a lost network would hang a verb.
        "tcp_user_timeout": int(lease.total_seconds() * 1000),
        # A session says what it needs outside of a transaction; see `begin`.
        "autocommit": True,
    }
    engine = create_engine(
        url,
        connect_args=connect_args,
        poolclass=RestingPool,
        max_connections=connections + _MORE,
        hide_parameters=True,
        json_serializer=_to_json,
        # It would be looked up in transactions of the driver's own, and nothing uses it.
        use_native_hstore=False,
    )
    event.listen(engine, "do_connect", partial(_connect_with_timeout, lease.total_seconds(), said))
    event.listen(engine, "begin", said.begin)
    event.listen(engine, "before_cursor_execute", _choose_format)
    event.listen(engine, "checkin", _note_use)
    event.listen(engine, "checkout", partial(_ping_if_idle, engine.dialect))
    return engine


def make_sqlite(url: URL, file: SqliteFile, connections: int = 10) -> Engine:
    """Return an engine that makes the file with its folder and takes the write lock at BEGIN.

    `file` is notified when a connection opens or closes.
    """
    engine = create_engine(
        url,
        connect_args={"timeout": 30},
        pool_size=connections,
        hide_parameters=True,
        json_serializer=_to_json,
    )
    event.listen(engine, "do_connect", _make_file)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "connect", file.note_opened)
    event.listen(engine, "close", file.note_closed)
    event.listen(engine, "close_detached", partial(file.note_closed, _record=None))
    event.listen(engine, "handle_error", _connect_anew_after)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _connect_with_timeout(
    answer_timeout: float,
    said: SessionSettings,
    _dialect: object,
    _record: object,
    args: list[Any],
    options: dict[str, Any],
) -> TimedConnection:
    key = options.get("sslkey")
    if key and "sslpassword" not in options and is_encrypted(key):
        # It may have been replaced since the start, and libpq would ask for its password.
        raise SessionRefused(f"its key {key} {NOT_ASKED}: name the key as it is, or sslpassword")
    try:
        connection = TimedConnection.connect(*args, **options)
    except OperationalError as error:
        authorities = None if options.get("sslrootcert") == _SYSTEM else options.get("sslrootcert")
        words = describe_expired(str(error), authorities, options["connect_timeout"])
        raise OperationalError(words) from error
    connection.answer_timeout = answer_timeout
    read_ids_as_text(connection)
    try:
        said.says_itself(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _choose_format(
    _conn: object,
    cursor: Any,
    _statement: object,
    _parameters: object,
    context: ExecutionContext,
    _executemany: object,
) -> None:
    if context.execution_options.get(IN_BINARY, False):
        cursor.format = Format.BINARY


def _note_use(_connection: object, record: ConnectionPoolEntry) -> None:
    record.info[_USED] = monotonic()


def _ping_if_idle(
    dialect: Dialect, connection: Any, record: ConnectionPoolEntry, _proxy: object
) -> None:
    """Ping a connection that is taken from the pool, unless it was used just now.

    `pool_pre_ping` would ping before each transaction, and a batch has dozens. A server that ends
    a session sends a message, so there is input at once; only a half-open connection is silent.
    """
    recent = monotonic() - record.info.get(_USED, monotonic()) < PING_AFTER_IDLE
    try:
        if not recent or _has_input(connection):
            dialect.do_ping(connection)
    except dialect.loaded_dbapi.Error as error:
        raise InvalidatePoolError(str(error)) from error


def _has_input(connection: Any) -> bool:
    look = poll()
    look.register(connection.fileno(), POLLIN)
    return bool(look.poll(0))


def _to_json(value: object) -> str:
    """Write JSON. Raises DataRefused: only here are such errors caused by the data."""
    try:
        return json.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise DataRefused(f"it cannot be written as JSON: {error}") from error


def _make_file(
    _dialect: object, _record: object, args: list[Any], options: Mapping[str, object]
) -> None:
    if args[0] == _IN_MEMORY or options.get("uri"):
        return
    # If this fails, SQLite reports that it cannot open the file: one error for all reasons.
    with suppress(OSError):
        make_private_folder(Path(args[0]).parent)
        make_private_file(Path(args[0]))


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # The driver must not begin transactions by itself: it would take no write lock at BEGIN.
    connection.isolation_level = None
    # `auto_vacuum` works on a file without tables only, and before WAL has written its header: then
    # deleted rows can be given back to the file system. Where it is on already it would write, and
    # wait for whoever writes: each connection that is opened would.
    (auto_vacuum,) = connection.execute("PRAGMA auto_vacuum").fetchone()
    if not auto_vacuum:
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _connect_anew_after(context: ExceptionContext) -> None:
    """Let SQLAlchemy replace all connections after an error of the file.

    A connection that was opened while the file was read-only stays read-only, even when the file
    is writable again.
    """
    code = getattr(context.original_exception, "sqlite_errorcode", 0)
    if code & _PRIMARY_CODE in _FILE_ERRORS:
        context.is_disconnect = True


def _begin_sqlite(conn: Connection) -> None:
    options = conn.get_execution_options()
    if options.get(RESTRUCTURING, False):
        # Before BEGIN, as it has no effect later; detached, the connection is closed after use.
        conn.exec_driver_sql("PRAGMA foreign_keys=OFF")
        conn.detach()
    conn.exec_driver_sql("BEGIN" if options.get(READING, False) else "BEGIN IMMEDIATE")
