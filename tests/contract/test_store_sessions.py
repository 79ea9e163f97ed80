"""What a role or a database sets does not decide how Retrier works, or `check` and `run` refuse it.

Each setting is that of a role of the test's own, which owns nothing and has the rights that
docs/operations.md names.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import event, make_url, select, text

from retrier.app.check import check
from retrier.errors import DatabaseRefused
from retrier.settings import load_settings
from retrier.store.engine.database import Database
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import causes
from retrier.store.upgrade import find_revision
from tests.contract.store_rows import record
from tests.support.bench import Bench
from tests.support.databases import empty, open_database, temporary_postgres
from tests.support.factories import failure
from tests.support.servers import psycopg_url

pytestmark = pytest.mark.postgres

WORKS = [
    "datestyle = 'SQL, DMY'",
    "datestyle = 'German'",
    "datestyle = 'Postgres, MDY'",
    "intervalstyle = 'sql_standard'",
    "intervalstyle = 'iso_8601'",
    "timezone = 'Asia/Kathmandu'",
    "timezone = 'EST5EDT,M3.2.0,M11.1.0'",
    "bytea_output = 'escape'",
    "client_encoding = 'LATIN1'",
    "client_encoding = 'SQL_ASCII'",
    "extra_float_digits = '-15'",
    "standard_conforming_strings = 'off'",
    "array_nulls = 'off'",
    "transform_null_equals = 'on'",
    "row_security = 'off'",
    "exit_on_error = 'on'",
    "synchronous_commit = 'off'",
    "default_transaction_isolation = 'serializable'",
    "default_transaction_isolation = 'repeatable read'",
    "default_transaction_read_only = 'on'",
    "default_transaction_deferrable = 'on'",
    "statement_timeout = '2s'",
    "lock_timeout = '1ms'",
    "idle_in_transaction_session_timeout = '1ms'",
    "idle_session_timeout = '100ms'",
    "plan_cache_mode = 'force_generic_plan'",
    "enable_indexscan = 'off'",
    "work_mem = '64kB'",
    "quote_all_identifiers = 'on'",
    "client_min_messages = 'debug5'",
    "lc_messages = 'C'",
    "xmloption = 'document'",
    "search_path = nowhere, public",
]
COMPILED = "jit_above_cost = '0'"
"""By itself: to compile the first statement of a session takes a hundred times as long as to run it, and
until that one is over the time limit is the role's."""
REFUSED = [
    ("session_replication_role = 'replica'", "session_replication_role is replica"),
    ("search_path = 'nowhere'", "(nowhere) names no schema that exists"),
]
RIGHTS = [
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {}",
    "GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {}",
]
TEXT = "Zahlung für Łukasz: ждёт, 'a\\b'"


@dataclass(frozen=True, slots=True)
class Server:
    """A database, and a role on it of which settings may be set."""

    admin: psycopg.Connection[Any]
    owner: Database
    role: str
    url: str

    @contextmanager
    def with_settings(self, *settings: str) -> Iterator[Database]:
        """Open the database as the role, which has these settings meanwhile."""
        for setting in settings:
            self.admin.execute(f"ALTER ROLE {self.role} SET {setting}")
        db = open_database(self.url)
        try:
            yield db
        finally:
            db.dispose()
            self.admin.execute(f"ALTER ROLE {self.role} RESET ALL")

    def check(self) -> tuple[bool, str]:
        """Return what `retrier check` says about the database."""
        environ = {"RETRIER_DATABASE__URL": self.url, "RETRIER_BROKER__URL": "embedded:///none.db"}
        (found,) = [each for each in check(load_settings(None, environ)) if each.name == "database"]
        return found.ok, found.text


@pytest.fixture(scope="module")
def server(postgres_url: str, upgraded_postgres: str) -> Iterator[Server]:
    role = f"retrier_test_{uuid4().hex[:12]}"
    with (
        temporary_postgres(postgres_url, upgraded_postgres) as url,
        psycopg.connect(psycopg_url(url), autocommit=True) as admin,
    ):
        admin.execute(f"CREATE ROLE {role} LOGIN")
        owner = open_database(url)
        try:
            for right in RIGHTS:
                admin.execute(right.format(role))
            low = make_url(url).set(username=role).render_as_string(hide_password=False)
            yield Server(admin, owner, role, low)
        finally:
            owner.dispose()
            admin.execute(f"DROP OWNED BY {role}")
            admin.execute(f"DROP ROLE {role}")


def take_what_depends_on_settings(tx: Transaction) -> tuple[object, ...]:
    """Return a NULL in an array, a backslash, a float, a minute and an interval."""
    values = text(
        "SELECT CAST('{NULL,a}' AS text[]), 'a\\b', CAST(0.1 AS float8) / 3, interval '1 day 2 h', "
        "date_trunc('day', CAST('2026-01-01T20:00:30Z' AS timestamptz))"
    )
    return tuple(tx.execute(values).one())


def work(db: Database) -> dict[str, object]:
    """Store a failure whose texts and body need every byte, retry it, and return what is read."""
    bench = Bench(db)
    hard = {"message_id": "m1", "body": bytes(range(256)), "headers": {"Shop.Letters": TEXT}}
    (stored,) = bench.fail(exception_message=TEXT, **hard)
    bench.ask_all()
    bench.work()
    message = bench.message(stored)
    return {
        "message": [message[name] for name in ("status", "first_failure", "time_sent")],
        "cause": bench.rows(select(causes.c.exception_message)),
        "sent": [each.body for each in bench.transport.broker.holds("orders")],
        "values": db.transact(take_what_depends_on_settings),
    }


@pytest.fixture(scope="module")
def expected(server: Server) -> dict[str, object]:
    """Give what is read where nothing is set."""
    db = open_database(server.url)
    empty(server.owner)
    try:
        return work(db)
    finally:
        db.dispose()


def rounds() -> list[list[str]]:
    """Return all settings in as few rounds as there are values of one name."""
    names = [setting.split()[0] for setting in WORKS]
    turns = [names[:place].count(name) for place, name in enumerate(names)]
    found: list[list[str]] = [[] for _ in range(max(turns) + 1)]
    for setting, turn in zip(WORKS, turns, strict=True):
        found[turn].append(setting)
    return found


@pytest.mark.parametrize(
    "settings", [*rounds(), [COMPILED]], ids=["first", "second", "third", "compiled"]
)
def test_a_role_that_sets_them_works_as_by_default(
    server: Server, expected: dict[str, object], settings: list[str]
) -> None:
    """Each has its own answer in the session, so that none hides what another one does."""
    empty(server.owner)

    with server.with_settings(*settings) as db:
        assert work(db) == expected
        assert server.check()[0], server.check()[1]


def test_a_database_that_sets_it_works_as_by_default(
    server: Server, expected: dict[str, object]
) -> None:
    empty(server.owner)
    name = server.admin.info.dbname
    server.admin.execute(f"ALTER DATABASE {name} SET datestyle = 'SQL, DMY'")
    db = open_database(server.url)
    try:
        assert work(db) == expected
    finally:
        db.dispose()
        server.admin.execute(f"ALTER DATABASE {name} RESET ALL")


@pytest.mark.parametrize(("setting", "words"), REFUSED)
def test_a_role_with_which_nothing_works_is_refused_by_check_and_run_in_the_same_words(
    server: Server, setting: str, words: str
) -> None:
    with server.with_settings(setting) as db:
        ok, told = server.check()
        with pytest.raises(DatabaseRefused) as refused:
            find_revision(db)

    assert not ok
    assert words in told
    assert str(refused.value) == told


def test_a_schema_that_may_not_be_used_is_named_by_check_and_run(server: Server) -> None:
    with server.with_settings("search_path = 'shop'") as db:
        server.admin.execute("CREATE SCHEMA shop")
        try:
            ok, told = server.check()
            with pytest.raises(DatabaseRefused) as refused:
                find_revision(db)
        finally:
            server.admin.execute("DROP SCHEMA shop")

    assert not ok
    assert f"may not use the schema shop: GRANT USAGE ON SCHEMA shop TO {server.role}" in told
    assert str(refused.value) == told


def test_check_says_that_writes_go_against_the_default_of_the_role(server: Server) -> None:
    with server.with_settings("default_transaction_read_only = 'on'"):
        _, told = server.check()

    assert "warning: the role or the database sets default_transaction_read_only" in told


@pytest.mark.parametrize("policy", ["", "FOR SELECT USING (true)"], ids=["none", "to read"])
def test_row_level_security_is_said_by_check_and_in_the_words_of_the_server(
    server: Server, policy: str
) -> None:
    empty(server.owner)
    server.admin.execute("ALTER TABLE failed_messages ENABLE ROW LEVEL SECURITY")
    if policy:
        server.admin.execute(f"CREATE POLICY test ON failed_messages {policy}")
    db = open_database(server.url)
    try:
        ok, told = server.check()
        with pytest.raises(DatabaseRefused, match="row-level security policy for table"):
            record(db, failure())
    finally:
        db.dispose()
        server.admin.execute("DROP POLICY IF EXISTS test ON failed_messages")
        server.admin.execute("ALTER TABLE failed_messages DISABLE ROW LEVEL SECURITY")

    assert not ok
    assert f"hides rows of the table failed_messages from the user {server.role}" in told
    assert f"ALTER ROLE {server.role} BYPASSRLS" in told


@pytest.mark.parametrize("table", ["failed_messages", "processing_attempts"])
def test_a_table_to_which_rows_may_not_be_copied_is_said_by_check_and_at_run(
    server: Server, table: str
) -> None:
    empty(server.owner)
    server.admin.execute(f"REVOKE INSERT ON {table} FROM {server.role}")
    db = open_database(server.url)
    try:
        ok, told = server.check()
        with pytest.raises(DatabaseRefused, match=f"permission denied for table {table}"):
            record(db, failure())
    finally:
        db.dispose()
        server.admin.execute(f"GRANT INSERT ON {table} TO {server.role}")

    assert not ok
    assert f"may not read and write the table {table}" in told


@pytest.mark.parametrize(("limit", "reached"), [(3, True), (0, False)])
def test_a_limit_of_connections_is_told_with_what_a_process_needs(
    server: Server, limit: int, *, reached: bool
) -> None:
    server.admin.execute(f"ALTER ROLE {server.role} CONNECTION LIMIT {limit}")
    try:
        ok, told = server.check()
    finally:
        server.admin.execute(f"ALTER ROLE {server.role} CONNECTION LIMIT -1")

    assert ok is reached
    assert "a process opens up to 20" in told


def test_a_connection_that_idles_is_not_ended(server: Server) -> None:
    shown = text("SELECT current_setting('idle_session_timeout')")

    with server.with_settings("idle_session_timeout = '10s'") as db:
        assert db.transact(lambda tx: tx.execute(shown).scalar_one()) == "0"


def test_no_statement_is_compiled(server: Server) -> None:
    """A cut forbids scans, so that a table of two rows seems dear enough to PostgreSQL."""
    shown = text("SELECT current_setting('jit')")

    with server.with_settings("jit = 'on'") as db:
        assert db.transact(lambda tx: tx.execute(shown).scalar_one()) == "off"


def test_a_transaction_says_its_level_without_a_statement_of_its_own(server: Server) -> None:
    level = (
        "SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only')"
    )
    db, statements = open_database(server.url), []
    event.listen(db.engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
    try:
        for _ in range(2):
            wrote = db.transact(lambda tx: tx.execute(text(level)).one())
            read = db.read(lambda tx: tx.execute(text(level)).one())
    finally:
        db.dispose()

    assert (tuple(wrote), tuple(read)) == (("read committed", "off"), ("repeatable read", "on"))
    assert statements[-4:] == [level] * 4
