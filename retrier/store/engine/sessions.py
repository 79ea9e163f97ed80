"""What every PostgreSQL session says for itself, so that no role, database or pooler decides it.

A role or a database may have other defaults than the server: `ALTER ROLE ... SET`. What a session
says stands above them. Startup options would say it at once, but PgBouncer refuses those that it
does not know, so it is said by statements (decision 0079):

- A session of our own says it once, after it has connected.
- Behind a pooler each transaction may have another session, which other programs use, too. There
  every transaction says it for itself alone, with its BEGIN: no round trip more.

A connection also limits how long it waits for any answer, whatever the server does.
"""

from collections.abc import Generator, Mapping
from datetime import timedelta
from select import POLLIN, POLLOUT, poll
from time import monotonic
from typing import Any, TypeVar

import psycopg
from psycopg import IsolationLevel
from psycopg.pq.abc import PGconn
from psycopg.sql import SQL, Literal
from psycopg.waiting import WAIT_R, WAIT_W
from sqlalchemy import Connection

from retrier.domain.values import dataclass
from retrier.overlap import WhileInFlight, nothing_else
from retrier.store.engine.sql_dialect import READING

T = TypeVar("T")

_LOOK = 0.1
"""Seconds between two looks at the clock during a wait."""


class TimedConnection(psycopg.Connection[Any]):
    """Gives up a server that does not answer for `answer_timeout` seconds; None: waits for ever.

    On a half-open connection the server's time-outs do not reach us. TCP does not notice either:
    a proxy, or the kernel of a hanging server, acknowledges every packet. The processor and API
    requests would wait for ever.
    """

    answer_timeout: float | None = None
    is_pooled: bool = False
    """Whether a pooler stands before the server: its next transaction may have another session."""
    while_in_flight: WhileInFlight = staticmethod(nothing_else)
    """Called while the server works and has not answered yet."""

    def wait(
        self, gen: Generator[Any, Any, T], interval: float = _LOOK, timeout: float | None = None
    ) -> T:
        """Wait for one answer. Without one, closes the connection and raises OperationalError.

        LISTEN waits with a `timeout` of its own. No answer is due there, so none is missing.
        """
        if timeout is not None:
            # One wait for the whole time: an idle service must not wake up ten times a second.
            return super().wait(gen, max(interval, timeout), timeout)
        if self.answer_timeout is None:
            return super().wait(gen, interval)
        try:
            return super().wait(self._attend(gen, self.answer_timeout), interval)
        except _NoAnswer:
            # A late answer would be taken for the answer to the next statement.
            self.close()
            raise

    def _attend(self, gen: Generator[Any, Any, T], seconds: float) -> Generator[Any, Any, T]:
        """Pass everything on to `gen`; raise _NoAnswer when nothing arrived for `seconds`.

        Before a wait that would take time, `while_in_flight` is called.
        """
        end = monotonic() + seconds
        ready = None
        while True:
            try:
                wanted = gen.send(ready)
            except StopIteration as done:
                answer: T = done.value
                return answer
            self._use_time(wanted)
            ready = yield wanted
            if ready:
                end = monotonic() + seconds
            elif monotonic() > end:
                raise _NoAnswer(f"no answer within {seconds:g} s")

    def _use_time(self, wanted: int) -> None:
        if self.while_in_flight is nothing_else:
            return
        look = _watch(self.pgconn, wanted)
        while not look.poll(0):
            if not self.while_in_flight():
                self.while_in_flight = nothing_else
                return


class _NoAnswer(psycopg.OperationalError):
    """The server did not answer in time; the statement may or may not have been executed."""


def _watch(pgconn: PGconn, wanted: int) -> poll:
    """Return what says whether the socket is ready; made once, for it is asked very often."""
    look = poll()
    look.register(pgconn.socket, POLLIN * bool(wanted & WAIT_R) | POLLOUT * bool(wanted & WAIT_W))
    return look


PLANS = "force_custom_plan"
"""A plan for the values at hand: one for any assumes ten ids in an array, and compares them in turn."""
_SAME_FOR_ALL = {
    # psycopg reads no times in other styles, and `timezone` decides what a day or a minute is.
    "datestyle": "ISO, MDY",
    "intervalstyle": "postgres",
    "timezone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    # Both change what a statement means: a backslash in a literal, NULL in an array of ours.
    "standard_conforming_strings": "on",
    "array_nulls": "on",
    "transform_null_equals": "off",
    # An error instead of rows that are silently left out.
    "row_security": "off",
    # A statement that is tried again, as after a lock timeout, must not cost the connection.
    "exit_on_error": "off",
    # If a role or database sets "off", a server crash loses acknowledged failures.
    "synchronous_commit": "on",
    "plan_cache_mode": PLANS,
    # Where scans are forbidden, a scan of two rows counts as dear, and was compiled for 60 ms.
    "jit": "off",
}
_NEEDS_VERSION = {"transaction_timeout": 17_00_00, "idle_session_timeout": 14_00_00}
# In READ COMMITTED each statement sees what was committed since the last.
_LEVELS = {True: IsolationLevel.REPEATABLE_READ, False: IsolationLevel.READ_COMMITTED}
_BEGIN = {
    True: "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    False: "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE",
}
"""Both by whether the transaction only reads."""
_SAY = SQL(
    "SELECT here.pooled, current_schema(), current_setting('session_replication_role'), {1} "
    "FROM (SELECT pg_backend_pid() <> {0} AS pooled) AS here"
)
_CHECKS_KEYS = "origin"
_NO_KEYS = (
    "session_replication_role is {}: foreign keys would not be checked. Set it to origin for the "
    "role and the database"
)
_SCHEMAS = SQL(
    "SELECT current_user, current_setting('search_path'), array(SELECT nspname FROM pg_namespace "
    "WHERE nspname = ANY(SELECT replace(trim(part, ' \"'), '$user', current_user) "
    "FROM unnest(string_to_array(current_setting('search_path'), ',')) AS part))"
)


class SessionRefused(psycopg.OperationalError):
    """The role or the database has a setting with which no session of ours works."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """The settings of a session, by name, as the server understands them.

    `for_transactions` may be said for one transaction alone. `for_connections` are about the time
    between two transactions and about the network: behind a pooler they are the pooler's business.
    """

    for_transactions: Mapping[str, str]
    for_connections: Mapping[str, str]

    def says_itself(self, connection: TimedConnection) -> None:
        """Let a new connection say all of it, if it has a session of its own; else note a pooler.

        Raises SessionRefused if a role or a database sets what no session may change or work with,
        and psycopg.Error.
        """
        # A pooler gives its clients numbers of its own. With the third argument true, what is set
        # ends with this statement: nothing of it stays in a session that others use, too.
        said = [
            SQL("set_config({}, {}, here.pooled)").format(Literal(name), Literal(value))
            for name, value in self._known_to(connection).items()
        ]
        query = _SAY.format(Literal(connection.info.backend_pid), SQL(", ").join(said))
        row = connection.execute(query, prepare=False).fetchone()
        pooled, schema, replication, *_ = row or (False, None, None)
        if replication != _CHECKS_KEYS:
            raise SessionRefused(_NO_KEYS.format(replication))
        if schema is None:
            raise SessionRefused(_explain_no_schema(connection))
        connection.is_pooled = pooled
        if pooled:
            # The session that has the prepared statement is not the one of the next transaction.
            connection.prepare_threshold = None
        else:
            connection.autocommit = False

    def begin(self, conn: Connection) -> None:
        """Begin a transaction; called by SQLAlchemy at its beginning. Raises DBAPIError.

        Without a pooler the driver says BEGIN with the first statement, in the cheapest way it has;
        here it only is told how. Said as a statement of ours it cost 3 % of a bulk retry.
        """
        reads = bool(conn.get_execution_options().get(READING, False))
        driver: Any = conn.connection.driver_connection
        if driver.is_pooled:
            conn.exec_driver_sql("; ".join([_BEGIN[reads], *self._said_locally(driver)]))
        elif driver.read_only is not reads:
            driver.isolation_level, driver.read_only = _LEVELS[reads], reads

    @property
    def statement_limit(self) -> timedelta:
        """How long one statement may take."""
        return timedelta(milliseconds=int(self.for_transactions["statement_timeout"]))

    def all(self) -> Mapping[str, str]:
        """Return all settings."""
        return {**self.for_transactions, **self.for_connections}

    def _said_locally(self, driver: TimedConnection) -> list[str]:
        known = self._known_to(driver)
        return [
            f"SET LOCAL {name} = '{value}'"
            for name, value in self.for_transactions.items()
            if name in known
        ]

    def _known_to(self, connection: TimedConnection) -> Mapping[str, str]:
        version = connection.info.server_version
        return {
            name: value
            for name, value in self.all().items()
            if version >= _NEEDS_VERSION.get(name, 0)
        }


def is_pooled(conn: Connection) -> bool:
    """Say whether a pooler stands before the server of this connection."""
    driver = conn.connection.driver_connection
    return isinstance(driver, TimedConnection) and driver.is_pooled


def make_session_settings(lease: timedelta, answer_limit: timedelta | None) -> SessionSettings:
    """Return settings by which a session can neither wait nor idle for longer than the lease."""
    lease_ms = _milliseconds(lease)
    limit_ms, lock_ms = lease_ms // 2, lease_ms // 3
    if answer_limit is not None:
        limit_ms = min(limit_ms, _milliseconds(answer_limit))
        # Only a lock timeout is tried again: let the statement timeout come first (decision 0021).
        lock_ms = limit_ms * 2
    return SessionSettings(
        for_transactions={
            **_SAME_FOR_ALL,
            "lock_timeout": str(max(1, lock_ms)),
            "statement_timeout": str(max(1, limit_ms)),
            # Without this, a processor frozen in a transaction would block its successor for ever.
            "idle_in_transaction_session_timeout": str(max(1, lease_ms // 3)),
            "transaction_timeout": "0",
        },
        for_connections={
            # The pool keeps idle connections, and the one that listens is idle most of its time.
            "idle_session_timeout": "0",
            # Let the server notice a lost network: its default is two hours.
            "tcp_keepalives_idle": "5",
            "tcp_keepalives_interval": "2",
            "tcp_keepalives_count": "3",
            "tcp_user_timeout": str(lease_ms),
        },
    )


def _milliseconds(time: timedelta) -> int:
    return int(time.total_seconds() * 1000)


def _explain_no_schema(connection: TimedConnection) -> str:
    """Say why there is no schema to work in: none exists, or none may be used."""
    row = connection.execute(_SCHEMAS, prepare=False).fetchone()
    user, path, existing = row or ("", "", [])
    if not existing:
        return (
            f"the search_path of the user {user} ({path}) names no schema that exists: create one, "
            f"or name another one: ALTER ROLE {user} SET search_path"
        )
    schema = existing[0]
    return (
        f"the user {user} may not use the schema {schema}: GRANT USAGE ON SCHEMA {schema} TO {user}"
    )
