"""Migrations: what they build is what the code says, once, also for two who start together."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import inspect, text

from retrier.errors import ConfigurationError, DatabaseUnavailable
from retrier.store.engine.database import Database
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import VIEWS, metadata
from retrier.store.upgrade import find_revision, take_views_away, upgrade_schema
from tests.contract.conftest import OpenNew
from tests.contract.store_retries import STAGED, bring_to
from tests.contract.store_rows import everything_but, message, record, select_rows
from tests.contract.store_shape import all_rows, particulars_of, sequences_of, shape_of
from tests.support.bench import Bench
from tests.support.databases import open_database, open_upgraded, temporary_postgres
from tests.support.factories import failed_import, failure, unique_id
from tests.support.revisions import downgrade, newest_revision, widened

IMPORTS = "failed_imports"


def compressions(db: Database) -> set[str]:
    """Return the compression methods that are set on columns."""
    if not knows_lz4(db):
        return set()
    query = "SELECT DISTINCT attcompression FROM pg_attribute WHERE attcompression <> ''"
    with db.engine.connect() as conn:
        return set(conn.scalars(text(query)))


def knows_lz4(db: Database) -> bool:
    query = (
        "SELECT EXISTS (SELECT 1 FROM pg_settings "
        "WHERE name = 'default_toast_compression' AND 'lz4' = ANY(enumvals))"
    )
    with db.engine.connect() as conn:
        return bool(conn.scalar(text(query)))


class TestAnUpgradedDatabase:
    def test_has_nothing_that_the_schema_would_change(self, new: Database) -> None:
        upgrade_schema(new)

        with new.engine.connect() as conn:
            context = MigrationContext.configure(
                conn, opts={"compare_type": True, "compare_server_default": True}
            )
            assert compare_metadata(context, metadata) == []

    def test_is_what_the_schema_alone_would_make(self, open_new: OpenNew) -> None:
        """Check constraints, too, which Alembic does not compare."""
        upgraded, made = open_new(), open_new()
        upgrade_schema(upgraded)

        metadata.create_all(made.engine)

        assert shape_of(upgraded) == shape_of(made)
        assert sequences_of(upgraded) == sequences_of(made)
        assert particulars_of(upgraded) == particulars_of(made)

    def test_is_at_the_newest_revision(self, new: Database) -> None:
        upgrade_schema(new)

        revision = find_revision(new)
        assert (revision.current, revision.wanted) == (newest_revision(), newest_revision())

    def test_is_not_changed_by_another_upgrade(self, new: Database) -> None:
        first = upgrade_schema(new)
        record(new, failure())
        before = everything_but(new)

        second = upgrade_schema(new)

        assert (first.current, second.current) == (None, first.wanted)
        assert everything_but(new) == before

    def test_has_all_views_and_no_others(self, new: Database) -> None:
        upgrade_schema(new)

        assert set(inspect(new.engine).get_view_names()) == set(VIEWS)

    def test_shows_what_the_tables_say_in_its_views(self, new: Database) -> None:
        upgrade_schema(new)
        retry = bring_to(Bench(new), STAGED)

        (shown_message,) = select_rows(new, text("SELECT * FROM v_failed_messages"))
        (shown_claim,) = select_rows(new, text("SELECT * FROM v_failed_message_retries"))

        stored = message(new, retry.key)
        same = ["number", "status", "queue", "exception_type", "failure_seq", "attempts"]
        assert [shown_message[name] for name in same] == [stored[name] for name in same]
        assert shown_message["group_title"] == retry.first.cause.groups[0].title
        assert str(shown_claim["unique_message_id"]) == retry.key
        assert str(shown_claim["retry_id"]) == retry.retry_id

    def test_shows_a_message_once_whatever_groups_it_has(self, new: Database) -> None:
        upgrade_schema(new)
        record(new, failure(), failure(exception_type=None), failure(message_type=None))

        assert len(select_rows(new, text("SELECT * FROM v_failed_messages"))) == 3


class TestADatabaseOfTheFirstRevision:
    def test_keeps_every_row_when_it_is_upgraded(self, new: Database) -> None:
        # Given rows in nearly every table, as that revision has them
        upgrade_schema(new)
        bench = Bench(new)
        bring_to(bench, STAGED)
        bench.receive(failed_import(b"\xff", b"\x00body"), failed_import())
        downgrade(new, "1001")
        with new.engine.begin() as conn:
            take_views_away(Transaction(conn, new.sql))
        before = all_rows(new)

        upgrade_schema(new)

        after = all_rows(new)
        same = {name: after[name] for name in before if name not in {"alembic_version", IMPORTS}}
        expected = before | {
            "retry_operations": widened(
                before["retry_operations"], by=[None, False, None, 0, None, None, None]
            ),
            "processing_attempts": widened(before["processing_attempts"], by=[None] * 3),
            "failed_messages": widened(
                before["failed_messages"], by=[None, None, "2", *[None] * 11]
            ),
            "failed_message_retries": widened(before["failed_message_retries"], by=[None] * 3),
        }
        assert same == {name: expected[name] for name in same}
        kept = [row.removesuffix(")") for row in before[IMPORTS]]
        assert after[IMPORTS] == [f"{row}, False, None)" for row in kept]
        assert after["failed_import_sends"] == []


class TestADatabaseThatIsNotUpgraded:
    def test_says_so(self, new: Database) -> None:
        revision = find_revision(new)

        assert (revision.current, revision.is_current) == (None, False)

    def test_stays_as_it_was_if_the_upgrade_fails(self, new: Database) -> None:
        """All revisions are one transaction: a database is never between two versions."""
        with new.engine.begin() as conn:
            conn.execute(text("CREATE TABLE ledger (mine text)"))

        with pytest.raises(Exception, match="ledger"):
            upgrade_schema(new)

        assert set(shape_of(new)) == {"ledger"}
        assert find_revision(new).current is None


@pytest.mark.parametrize("revision", ["0001", "0002", "0003", "0004", "0005", "0006"])
def test_a_database_from_before_the_first_release_is_refused_and_left_alone(
    new: Database, revision: str
) -> None:
    # Given a database as such a version left it, as far as this one looks at it
    with new.engine.begin() as conn:
        conn.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) PRIMARY KEY)"))
        conn.execute(text("INSERT INTO alembic_version VALUES (:now)"), {"now": revision})
        conn.execute(text("CREATE TABLE failed_messages (unique_message_id TEXT, headers TEXT)"))
        conn.execute(text("INSERT INTO failed_messages VALUES ('m1', '{}')"))
    before = all_rows(new), shape_of(new)

    with pytest.raises(ConfigurationError, match="before the first release") as refused:
        upgrade_schema(new)

    (line,) = str(refused.value).splitlines()
    assert line.startswith(f"database.url: the database at {new.place} ")
    assert (all_rows(new), shape_of(new)) == before
    with pytest.raises(ConfigurationError):
        find_revision(new)


def test_two_processes_that_upgrade_at_once_upgrade_once(new: Database) -> None:
    other = open_database(new.engine.url.render_as_string(hide_password=False))
    ready = Barrier(2, timeout=10)

    def start(db: Database) -> str | None:
        ready.wait()
        return upgrade_schema(db).current

    with ThreadPoolExecutor(2) as pool:
        found = [each.result(30) for each in [pool.submit(start, db) for db in (new, other)]]

    other.dispose()
    assert sorted(found, key=str) == [newest_revision(), None]
    assert record(new, failure()).new == 1


def test_a_database_of_a_newer_version_is_refused_with_words(new: Database) -> None:
    upgrade_schema(new)
    with new.engine.begin() as conn:
        conn.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    with pytest.raises(DatabaseUnavailable, match="9999"):
        upgrade_schema(new)


class TestADowngrade:
    def test_leaves_nothing(self, new: Database) -> None:
        upgrade_schema(new)

        downgrade(new)

        assert (shape_of(new), sequences_of(new)) == ({}, [])

    def test_can_be_undone(self, new: Database) -> None:
        upgrade_schema(new)
        shape = shape_of(new)
        downgrade(new)

        upgrade_schema(new)

        assert shape_of(new) == shape
        stored = failure()
        record(new, stored)
        assert message(new, unique_id(stored))["number"] == 1


@pytest.mark.postgres
def test_what_failed_messages_hold_is_compressed_by_lz4_where_the_server_has_it(
    postgres_url: str,
) -> None:
    with temporary_postgres(postgres_url) as url:
        db = open_upgraded(url)

        assert compressions(db) == ({"l"} if knows_lz4(db) else set())
        db.dispose()
