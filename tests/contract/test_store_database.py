"""How a verb becomes a transaction: what is tried again, what is told, what a session is like."""

import socket
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from threading import Barrier, Thread
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import create_engine, event, func, insert, make_url, select, text, update
from sqlalchemy.exc import InvalidRequestError, OperationalError, ProgrammingError, StatementError
from sqlalchemy.exc import TimeoutError as NoConnectionFree

from retrier.errors import (
    AnswerTooSlow,
    ConfigurationError,
    DatabaseRefused,
    DatabaseUnavailable,
    DataRefused,
    TablesMissing,
)
from retrier.store.cuts import IS_UNRESOLVED
from retrier.store.engine.database import ConcurrentChange, Database, DatabaseOptions
from retrier.store.engine.pool import RestingPool
from retrier.store.engine.sessions import make_session_settings
from retrier.store.schema import SETTLED, STRICT, counters, failed_messages
from retrier.store.schema.messages import ISSUED, SCHEDULED
from retrier.store.selections import are_dead
from tests.contract.store_rows import record, rows
from tests.support.databases import empty, open_upgraded, sqlite_url, temporary_postgres
from tests.support.factories import failure
from tests.support.servers import psycopg_url
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import wait_until

DEADLINE = 10.0
ONE = {"name": "one", "value": 1}
ALL = 20
"""Connections of a pool, those included that it closes afterwards."""
MOST_PAGES = 1_000_000
NO_PATIENCE = "PRAGMA busy_timeout = 1"


@contextmanager
def opened(url, **options):
    db = Database(DatabaseOptions(url=url, **options))
    yield db
    db.dispose()


@pytest.fixture
def postgres(shared_postgres):
    """Give the PostgreSQL database of the run, empty."""
    empty(shared_postgres)
    return shared_postgres


@pytest.fixture
def no_tables(postgres_url):
    """Give the URL of a PostgreSQL database with no tables."""
    with temporary_postgres(postgres_url) as url:
        yield url


def count_rows(tx):
    return tx.execute(select(func.count()).select_from(counters)).scalar_one()


def failing_at_first(raise_first, times=1):
    """Return a verb that writes and then fails so many times, and the list of its tries."""
    tries = []

    def verb(tx):
        tx.execute(insert(counters), [ONE])
        tries.append(1)
        if len(tries) <= times:
            raise_first(tx)
        return "done"

    return verb, tries


def doing(act):
    """Return a listener that does something and leaves the error as it is."""

    def listen(_context):
        act()

    return listen


def limit(tx, name, milliseconds):
    """Limit one verb alone: a lease as short would limit what is to succeed, too."""
    tx.execute(text(f"SET LOCAL {name} = {milliseconds}"))


def raise_state(tx, state):
    tx.execute(text(f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{state}'; END $$"))


class TestATransactionThatCollides:
    def test_with_another_change_is_done_again_from_the_start(self, database):
        def collide(_tx):
            raise ConcurrentChange

        verb, tries = failing_at_first(collide, times=3)

        assert database.transact(verb) == "done"
        assert len(tries) == 4
        assert rows(database, counters) == [ONE]

    def test_with_a_busy_sqlite_is_done_again(self, tmp_path):
        url = sqlite_url(tmp_path)
        other = sqlite3.connect(make_url(url).database, isolation_level=None)
        with opened(url) as db:
            event.listen(db.engine, "connect", lambda dbapi, _: dbapi.execute(NO_PATIENCE))
            event.listen(db.engine, "handle_error", doing(lambda: other.execute("ROLLBACK")))
            db.read(lambda tx: tx.execute(text("SELECT 1")))
            other.execute("BEGIN IMMEDIATE")

            assert db.transact(lambda tx: tx.execute(text("SELECT 7")).scalar_one()) == 7
        other.close()

    @pytest.mark.postgres
    @pytest.mark.parametrize("state", ["40P01", "40001", "55P03"])
    def test_on_the_server_is_done_again(self, postgres, state):
        verb, tries = failing_at_first(lambda tx: raise_state(tx, state))

        assert postgres.transact(verb) == "done"
        assert len(tries) == 2
        assert rows(postgres, counters) == [ONE]

    @pytest.mark.postgres
    def test_every_time_gives_up_with_words(self, postgres):
        verb, tries = failing_at_first(lambda tx: raise_state(tx, "40001"), times=100)

        with pytest.raises(DatabaseUnavailable, match="stayed busy for 10 tries"):
            postgres.transact(verb)

        assert len(tries) == 10

    @pytest.mark.postgres
    def test_in_a_deadlock_is_done_again(self, postgres):
        names = ["one", "two"]
        postgres.transact(
            lambda tx: tx.execute(insert(counters), [{"name": name, "value": 0} for name in names])
        )
        both_hold_one = Barrier(2, timeout=DEADLINE)

        def count_up(order):
            waits = [lambda: None, both_hold_one.wait]

            def verb(tx):
                for name in order:
                    if waits:
                        waits.pop(0)()
                    row = update(counters).where(counters.c.name == name)
                    tx.execute(row.values(value=counters.c.value + 1))

            postgres.transact(verb)

        threads = [Thread(target=count_up, args=(order,)) for order in (names, names[::-1])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE)

        assert {row["value"] for row in rows(postgres, counters)} == {2}

    @pytest.mark.postgres
    def test_with_a_lock_that_is_held_too_long_is_done_again(self, postgres):
        postgres.transact(lambda tx: tx.execute(insert(counters), [ONE]))
        change = update(counters).values(value=2)
        url = postgres.engine.url.render_as_string(hide_password=False)
        tries = []

        def verb(tx):
            if not tries:
                limit(tx, "lock_timeout", 100)
            tries.append(1)
            tx.execute(change)

        with opened(url) as db, postgres.engine.connect() as other:
            event.listen(db.engine, "handle_error", doing(other.rollback))
            other.execute(change)

            db.transact(verb)

        assert rows(postgres, counters) == [{"name": "one", "value": 2}]


class TestAStatementOfOursThatIsWrong:
    def test_is_not_blamed_on_the_data(self, database):
        """A list in a statement for many rows: SQLAlchemy objects, whatever the rows say."""
        statement = update(counters).where(counters.c.name.in_(["a", "b"])).values(value=1)

        with pytest.raises(StatementError) as raised:
            database.transact(lambda tx: tx.execute(statement, [{}, {}]))

        assert isinstance(raised.value.orig, InvalidRequestError)

    @pytest.mark.postgres
    def test_is_not_blamed_on_the_connection(self, postgres):
        with pytest.raises(ProgrammingError):
            postgres.transact(lambda tx: tx.execute(text("SELECT FROM WHERE")))


@pytest.mark.parametrize("verb", ["transact", "read"])
class TestADatabaseThatCannotBeReached:
    @pytest.mark.postgres
    def test_is_told_with_host_and_reason_and_without_the_password(self, verb):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        url = f"postgresql+psycopg://ada:hidden@127.0.0.1:{port}/retrier"

        with opened(url) as db, pytest.raises(DatabaseUnavailable) as raised:
            getattr(db, verb)(count_rows)

        words = str(raised.value)
        assert f"127.0.0.1:{port}/retrier" in words
        assert "refused" in words
        assert "hidden" not in words

    @pytest.mark.postgres
    def test_is_told_by_its_name_if_the_server_does_not_have_it(self, postgres_url, verb):
        url = make_url(postgres_url).set(database=f"none_{uuid4().hex}")

        with (
            opened(url.render_as_string(hide_password=False)) as db,
            pytest.raises(
                DatabaseRefused,
                match=f'"{url.database}" does not exist; create it: createdb {url.database}',
            ),
        ):
            getattr(db, verb)(count_rows)

    @pytest.mark.postgres
    def test_is_told_if_the_url_has_an_option_that_nobody_knows(self, postgres_url, verb):
        with (
            opened(f"{postgres_url}?colour=green") as db,
            pytest.raises(DatabaseUnavailable, match="colour"),
        ):
            getattr(db, verb)(count_rows)

    def test_is_told_if_it_is_a_file_in_no_folder(self, tmp_path, verb):
        (tmp_path / "file").touch()

        with (
            opened(f"sqlite:///{tmp_path}/file/retrier.db") as db,
            pytest.raises(DatabaseUnavailable, match=r"file/retrier\.db: the user of this process"),
        ):
            getattr(db, verb)(count_rows)

    def test_is_told_if_it_is_a_file_of_something_else(self, tmp_path, verb):
        (tmp_path / "letter.txt").write_text("Dear Ada,\n" * 200)

        with (
            opened(f"sqlite:///{tmp_path}/letter.txt") as db,
            pytest.raises(DatabaseUnavailable, match="not a database"),
        ):
            getattr(db, verb)(count_rows)

    def test_is_told_if_it_has_no_tables_on_sqlite(self, tmp_path, verb):
        with (
            opened(sqlite_url(tmp_path)) as db,
            pytest.raises(TablesMissing, match="has not all tables of Retrier yet"),
        ):
            getattr(db, verb)(count_rows)

    @pytest.mark.postgres
    def test_is_told_if_it_has_no_tables_on_postgres(self, no_tables, verb):
        with (
            opened(no_tables) as db,
            pytest.raises(TablesMissing, match="has not all tables of Retrier yet"),
        ):
            getattr(db, verb)(count_rows)

    def test_is_told_if_all_connections_are_in_use(self, database, verb):
        db = Database(DatabaseOptions(url=str(database.engine.url)))
        db.engine = create_engine(
            database.engine.url, pool_size=1, max_overflow=0, pool_timeout=0.05
        )

        with db.engine.connect(), pytest.raises(DatabaseUnavailable, match="in use"):
            getattr(db, verb)(count_rows)

        db.dispose()


class TestThePool:
    def test_says_that_all_its_connections_are_in_use(self):
        engine = create_engine("sqlite://", poolclass=RestingPool, max_connections=1, wait=0.05)

        with engine.connect(), pytest.raises(NoConnectionFree, match="1 connections are in use"):
            engine.connect()

    def test_gives_a_connection_that_came_back_to_who_waits(self):
        engine = create_engine("sqlite://", poolclass=RestingPool, max_connections=1, wait=30)
        first = engine.connect()
        second = ThreadPoolExecutor(1).submit(engine.connect)

        first.close()

        assert second.result(DEADLINE).closed is False
        assert engine.pool.status() == "1 connections, 0 of them rest"

    def test_opens_one_more_after_one_could_not_be_opened(self):
        engine = create_engine(
            "sqlite:////no/folder/x.db", poolclass=RestingPool, max_connections=1, wait=0
        )

        for _ in range(2):
            with pytest.raises(OperationalError, match="unable to open"):
                engine.connect()

    def test_closes_what_nobody_has_used_for_a_while(self):
        engine = create_engine("sqlite://", poolclass=RestingPool)
        with engine.connect(), engine.connect():
            pass

        engine.pool.close_rested(0)

        assert engine.pool.status() == "0 connections, 0 of them rest"

    def test_keeps_what_was_used_just_now(self):
        engine = create_engine("sqlite://", poolclass=RestingPool)
        with engine.connect(), engine.connect():
            pass

        engine.pool.close_rested(60)

        assert engine.pool.status() == "2 connections, 2 of them rest"

    def test_gives_the_connection_that_was_used_last(self):
        engine = create_engine("sqlite://", poolclass=RestingPool)
        with engine.connect() as first, engine.connect():
            used_last = first.connection.driver_connection

        with engine.connect() as again:
            assert again.connection.driver_connection is used_last

    def test_leaves_alone_what_is_in_use(self):
        engine = create_engine("sqlite://", poolclass=RestingPool)

        with engine.connect() as conn:
            engine.pool.close_rested(0)

            assert conn.scalar(text("SELECT 1")) == 1


@pytest.mark.postgres
def test_connections_that_a_busy_moment_opened_are_closed_also_where_they_are_apart(postgres):
    url = postgres.engine.url.render_as_string(hide_password=False)
    with opened(url) as db:
        apart = db.apart(1)
        with (
            db.engine.connect() as one,
            db.engine.connect() as two,
            apart.engine.connect() as three,
        ):
            pids = [each.scalar(text("SELECT pg_backend_pid()")) for each in (one, two, three)]

        db.close_rested(timedelta(0))

        # Each look in a transaction of its own: within one, PostgreSQL shows who was there at the first.
        wait_until(lambda: not any(is_alive(postgres, pid) for pid in pids), DEADLINE)


@pytest.mark.postgres
def test_a_silent_server_is_given_up_within_the_connect_timeout():
    """Less than a second, too, is not taken for no limit at all."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"postgresql+psycopg://ada:hidden@127.0.0.1:{server.getsockname()[1]}/retrier"
        start = time.monotonic()

        with (
            opened(url, connect_timeout=timedelta(seconds=0.2)) as db,
            pytest.raises(DatabaseUnavailable) as raised,
        ):
            db.transact(count_rows)

    assert time.monotonic() - start < 20
    assert "hidden" not in str(raised.value)


@pytest.mark.postgres
class TestAConnectionThatBreaks:
    def test_inside_a_transaction_is_told_and_then_replaced(self, postgres):
        def verb(tx):
            terminate(postgres, tx.execute(text("SELECT pg_backend_pid()")).scalar_one())
            tx.execute(text("SELECT 1"))

        with pytest.raises(DatabaseUnavailable):
            postgres.transact(verb)

        assert record(postgres, failure()).new == 1

    def test_while_idle_is_not_noticed_at_all(self, postgres):
        with opened(postgres.engine.url.render_as_string(hide_password=False)) as db:
            pid = db.transact(lambda tx: tx.execute(text("SELECT pg_backend_pid()")).scalar_one())
            terminate(postgres, pid)

            assert record(db, failure()).new == 1

    def test_by_the_network_is_told_and_then_replaced(self, postgres):
        url = postgres.engine.url.render_as_string(hide_password=False)
        with TcpProxy(url) as proxy, opened(proxy.url) as db:

            def verb(tx):
                tx.execute(text("SELECT 1"))
                proxy.cut()
                tx.execute(text("SELECT 1"))

            with pytest.raises(DatabaseUnavailable, match=r"127\.0\.0\.1"):
                db.transact(verb)

            assert record(db, failure()).new == 1

    def test_because_it_idled_inside_a_transaction_is_told_and_then_replaced(self, postgres):
        url = postgres.engine.url.render_as_string(hide_password=False)
        with opened(url) as db:

            def verb(tx):
                limit(tx, "idle_in_transaction_session_timeout", 100)
                pid = tx.execute(text("SELECT pg_backend_pid()")).scalar_one()
                wait_until(lambda: not is_alive(postgres, pid), DEADLINE)
                tx.execute(text("SELECT 1"))

            with pytest.raises(DatabaseUnavailable):
                db.transact(verb)

            assert record(db, failure()).new == 1

    def test_because_nobody_answers_is_told_and_then_replaced(self, postgres):
        # Given a line that is half open: packets are acknowledged, and nothing comes back
        url = postgres.engine.url.render_as_string(hide_password=False)
        with TcpProxy(url) as proxy, opened(proxy.url, lease=timedelta(seconds=14)) as db:

            def verb(tx):
                tx.execute(text("SELECT 1"))
                driver = tx.conn.connection.driver_connection
                assert driver.answer_timeout == 14
                driver.answer_timeout = 1  # for this connection, and not for the one after it
                proxy.freeze()
                tx.execute(text("SELECT 1"))

            began = time.monotonic()
            with pytest.raises(DatabaseUnavailable, match="no answer within 1 s"):
                db.transact(verb)

            assert time.monotonic() - began < DEADLINE
            proxy.cut()
            assert record(db, failure()).new == 1

    def test_a_statement_that_takes_too_long_is_ended(self, postgres):
        url = postgres.engine.url.render_as_string(hide_password=False)

        def verb(tx):
            limit(tx, "statement_timeout", 150)
            tx.execute(text("SELECT pg_sleep(10)"))

        with opened(url) as db, pytest.raises(DatabaseUnavailable, match="statement timeout"):
            db.transact(verb)


def terminate(db, pid):
    killed = text("SELECT pg_terminate_backend(:pid, 5000)")
    db.transact(lambda tx: tx.execute(killed, {"pid": pid}))


def is_alive(db, pid):
    query = text("SELECT count(*) FROM pg_stat_activity WHERE pid = :pid")
    return db.read(lambda tx: tx.execute(query, {"pid": pid}).scalar_one()) == 1


def show(db, name):
    return db.transact(lambda tx: tx.execute(text(f"SHOW {name}")).scalar_one())


@pytest.mark.postgres
class TestASessionOnPostgres:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("synchronous_commit", "on"),
            ("lock_timeout", "5s"),
            ("idle_in_transaction_session_timeout", "5s"),
            ("statement_timeout", "7500ms"),
            ("tcp_keepalives_idle", "5"),
            ("tcp_user_timeout", "15000"),
            ("application_name", "retrier"),
        ],
    )
    def test_sets_what_a_lease_of_15_seconds_needs(self, postgres, name, value):
        url = postgres.engine.url.render_as_string(hide_password=False)

        with opened(url) as db:
            assert show(db, name) == value

    def test_bounds_everything_also_under_the_shortest_lease(self):
        said = make_session_settings(timedelta(milliseconds=1), None).all()

        limits = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
        assert [said[name] for name in limits] == ["1"] * 3

    def test_keeps_the_operators_own_options_behind_ours(self, no_tables):
        theirs = "-c%20search_path%3Dshop%20-c%20synchronous_commit%3Doff"
        with psycopg.connect(psycopg_url(no_tables), autocommit=True) as admin:
            admin.execute("CREATE SCHEMA shop")

        with opened(f"{no_tables}?options={theirs}") as db:
            assert show(db, "search_path") == "shop"
            assert show(db, "synchronous_commit") == "on"

    def test_gives_a_lost_network_no_longer_than_the_lease(self, postgres):
        def given_to_driver(tx):
            return tx.conn.connection.driver_connection.info.get_parameters()

        given = postgres.transact(given_to_driver)

        assert given["tcp_user_timeout"] == "15000"
        assert (given["keepalives_idle"], given["keepalives_count"]) == ("5", "3")


class TestASessionOnSqlite:
    @pytest.fixture
    def sqlite(self, tmp_path):
        with opened(f"sqlite:///{tmp_path}/not/there/yet/retrier.db") as db:
            yield db

    @pytest.mark.parametrize(
        ("name", "value"),
        [("journal_mode", "wal"), ("synchronous", 2), ("foreign_keys", 1), ("busy_timeout", 30000)],
    )
    def test_sets_what_keeps_the_data(self, sqlite, name, value):
        shown = sqlite.transact(lambda tx: tx.execute(text(f"PRAGMA {name}")).scalar_one())

        assert shown == value

    def test_makes_the_folder_of_its_file(self, sqlite):
        sqlite.transact(lambda tx: tx.execute(text("SELECT 1")))

        assert sqlite.place.endswith("not/there/yet/retrier.db")

    def test_holds_the_write_lock_from_the_start_of_a_transaction(self, sqlite):
        sqlite.transact(lambda tx: tx.execute(text("SELECT 1")))
        other = sqlite3.connect(sqlite.place, timeout=0)

        def verb(_tx):
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                other.execute("BEGIN IMMEDIATE")

        sqlite.transact(verb)
        other.close()


class TestConnectionsApart:
    def test_are_free_though_all_others_are_taken(self, database):
        apart = database.apart(1)
        with ExitStack() as taken:
            for _ in range(ALL):
                taken.enter_context(database.engine.connect())

            assert apart.read(count_rows) == 0

    def test_are_closed_with_the_others(self, tmp_path):
        db = open_upgraded(sqlite_url(tmp_path))
        db.apart(1).read(count_rows)

        db.dispose()

        assert [each.suffix for each in tmp_path.iterdir()] == [".db"]

    def test_give_up_a_lock_once_and_soon(self, postgres):
        apart = postgres.apart(1, timedelta(seconds=0.2))
        assert show(apart, "statement_timeout") == "200ms"
        tries = []
        event.listen(apart.engine, "handle_error", doing(lambda: tries.append(1)))

        def verb(tx):
            tx.execute(text("LOCK TABLE counters IN ACCESS EXCLUSIVE MODE"))
            began = time.monotonic()
            with pytest.raises(AnswerTooSlow, match=r"no answer from .* within 0.2 s"):
                apart.read(count_rows)
            return time.monotonic() - began

        assert postgres.transact(verb) < DEADLINE
        assert len(tries) == 1


@pytest.mark.postgres
def test_who_waits_too_long_is_told_the_limit_that_was_in_force(postgres):
    url = postgres.engine.url.render_as_string(hide_password=False)
    with opened(url, lease=timedelta(seconds=3), answer_limit=timedelta(seconds=60)) as db:

        def verb(_tx):
            with pytest.raises(AnswerTooSlow, match=r"no answer from .* within 1\.5 s"):
                db.read(lambda tx: tx.execute(text("SELECT pg_sleep(5)")))

        postgres.transact(verb)


class TestAFullDisk:
    def test_is_told_and_survived(self, tmp_path):
        db, most = open_upgraded(sqlite_url(tmp_path)), [1]
        event.listen(
            db.engine,
            "begin",
            lambda conn: conn.exec_driver_sql(f"PRAGMA max_page_count = {most[0]}"),
        )
        with pytest.raises(DatabaseUnavailable, match="disk is full"):
            record(db, failure(body=bytes(100_000)))
        assert rows(db, failed_messages) == []

        most[0] = MOST_PAGES

        assert record(db, failure(body=bytes(100_000))).new == 1
        db.dispose()


class TestReading:
    def test_is_one_view_though_others_write_meanwhile(self, database):
        def look_twice(tx):
            before = count_rows(tx)
            database.transact(lambda other: other.execute(insert(counters), [ONE]))
            return before, count_rows(tx)

        assert database.read(look_twice) == (0, 0)
        assert len(rows(database, counters)) == 1

    def test_waits_for_nobody_who_writes(self, database):
        def write(tx):
            tx.execute(insert(counters), [ONE])
            return database.read(count_rows)

        assert database.transact(write) == 0

    def test_leaves_the_connection_fit_for_writing(self, database):
        for _ in range(3):
            database.read(count_rows)
            database.transact(lambda tx: tx.execute(update(counters).values(value=2)))


@pytest.mark.parametrize(
    ("where", "place"),
    [
        ("/shop?host=one:5433&host=two:5434", "one:5433, two:5434/shop"),
        ("/shop?host=one,two&port=5433,5434", "one:5433, two:5434/shop"),
        ("/shop?host=one&host=two&target_session_attrs=read-write", "one:5432, two:5432/shop"),
        ("/shop", "local socket:5432/shop"),
    ],
)
def test_the_place_names_every_host_that_may_be_connected_to(where: str, place: str):
    db = Database(DatabaseOptions(url=f"postgresql+psycopg://me:secret@{where}"))

    assert db.place == place


def test_hosts_and_ports_that_do_not_match_are_a_problem_of_the_settings():
    url = "postgresql+psycopg://me:secret@/shop?host=one,two,three&port=5433,5434"

    with pytest.raises(ConfigurationError, match=r"^database\.url: ") as told:
        Database(DatabaseOptions(url=url))

    assert "secret" not in str(told.value)


def test_the_place_shows_neither_user_nor_password():
    db = Database(DatabaseOptions(url="postgresql+psycopg://ada:hidden@db.example:5433/shop"))

    assert db.place == "db.example:5433/shop"


@pytest.mark.postgres
def test_a_value_too_large_for_an_index_is_the_fault_of_the_data(postgres):
    def insert_name(tx):
        tx.execute(text("CREATE TEMPORARY TABLE wide (name text PRIMARY KEY) ON COMMIT DROP"))
        name = "".join(uuid4().hex for _ in range(400))
        tx.execute(text("INSERT INTO wide VALUES (:name)"), {"name": name})

    with pytest.raises(DataRefused, match="maximum size"):
        postgres.transact(insert_name)


def test_a_set_of_ids_may_be_larger_than_the_parameters_of_a_statement(database):
    """Ingestion may have 65,535 messages in hand; SQLite takes 32,766 parameters by default."""
    if database.is_sqlite:
        event.listen(database.engine, "begin", limit_parameters)
    database.transact(lambda tx: tx.execute(insert(counters), [ONE]))
    names = ["one", *map(str, range(40_000))]

    found = database.read(
        lambda tx: (
            tx.execute(select(counters.c.name).where(database.sql.member(counters.c.name, names)))
            .scalars()
            .all()
        )
    )

    assert found == ["one"]


def test_a_set_of_ids_may_hold_any_text(database):
    odd = ["a,b", 'say "no"', "back\\slash", "NULL", "", "{}", "line\nbreak"]
    rows = [{"name": name, "value": 1} for name in odd]
    database.transact(lambda tx: tx.execute(insert(counters), rows))

    found = database.read(
        lambda tx: set(
            tx.execute(
                select(counters.c.name).where(database.sql.member(counters.c.name, odd))
            ).scalars()
        )
    )

    assert found == set(odd)


class TestWhileTheDatabaseIsAtWork:
    @staticmethod
    def ask(db, while_in_flight, times=3):
        """Ask for a 7 that comes a little after `while_in_flight` was called so many times.

        Not after some time: this thread might see nothing of a wait that is over before it looks.
        """
        url = db.engine.url.render_as_string(hide_password=False)
        calls = []

        def count_and_call():
            calls.append(1)
            if len(calls) == times:
                other.execute("SELECT pg_advisory_unlock(7)")
            return while_in_flight()

        with psycopg.connect(psycopg_url(url), autocommit=True) as other, db.engine.begin() as conn:
            other.execute("SELECT pg_advisory_lock(7)")
            conn.execute(text("SELECT 'begun'"))
            with db.sql.using_waits(conn, count_and_call):
                late = "SELECT 7, pg_sleep(0.05) FROM pg_advisory_xact_lock(7)"
                return conn.execute(text(late)).scalar_one()

    def test_something_else_is_done_until_the_answer_is_there(self, postgres):
        done = []

        # Who did it only now and then, in between two waits, would come to the limit of a lock.
        answer = self.ask(postgres, lambda: done.append(1) or True, times=100)

        assert answer == 7
        assert len(done) >= 100

    def test_nothing_is_done_twice_that_has_an_end(self, postgres):
        left = iter([True, True, False])

        answer = self.ask(postgres, lambda: next(left))

        assert (answer, list(left)) == (7, [])

    def test_nothing_is_done_in_the_next_transaction(self, postgres):
        done = []
        self.ask(postgres, lambda: done.append(1) or True)
        before = len(done)

        postgres.transact(lambda tx: tx.execute(text("SELECT pg_sleep(0.02)")))

        assert len(done) == before


def test_who_looks_for_keys_does_not_read_a_whole_table_that_is_small_yet(postgres):
    query = text("EXPLAIN SELECT body FROM processing_attempts WHERE attempt_id = ANY('{1,2}')")

    def explain(tx):
        tx.sql.force_index_order(tx.conn)
        return "\n".join(tx.execute(query).scalars())

    assert "Seq Scan" not in postgres.transact(explain)


@pytest.mark.parametrize(
    ("condition", "index"),
    [
        (SETTLED, "retention"),
        (STRICT, "strict"),
        (ISSUED, "issued"),
        (SCHEDULED, "due"),
        (IS_UNRESOLVED, "cut"),
        (are_dead(), "dead"),
    ],
    ids=["settled", "strict", "issued", "scheduled", "unresolved", "dead"],
)
def test_sqlite_sees_that_a_condition_is_that_of_an_index(shared_sqlite, condition, index):
    """It compares the words: one sign more, as in `status = 'x' = 1`, and it reads the table."""
    query = select(failed_messages.c.number).where(condition)
    written = str(query.compile(dialect=shared_sqlite.engine.dialect))
    look = written.replace(" \nWHERE", f" INDEXED BY ix_failed_messages_{index} WHERE")

    assert f"INDEXED BY ix_failed_messages_{index} " in look
    assert (
        shared_sqlite.read(lambda tx: tx.execute(text(look)).all()) == []
    )  # or: no query solution


@pytest.mark.parametrize(
    "names",
    [[], [""], ["", "a"], ["a", "b\x1fc"], ["\x1f"], ["a", '"', "{d}", "e,f", "\\"]],
    ids=repr,
)
def test_a_set_of_ids_holds_just_these_whatever_they_are(database, names):
    stored = ["", "a", "b", "c", "b\x1fc", "\x1f", '"', "{d}", "d", "e", "e,f", "\\"]
    database.transact(
        lambda tx: tx.execute(insert(counters), [{"name": n, "value": 0} for n in stored])
    )

    name = counters.c.name
    query = select(name).where(database.sql.member(name, names))
    found = database.read(lambda tx: tx.execute(query).scalars().all())

    assert sorted(found) == sorted(names)


def limit_parameters(conn):
    # The connection keeps it, and other tests have it then: no harm, as everybody has it by default.
    conn.connection.dbapi_connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 32_766)
