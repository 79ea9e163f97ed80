"""Migrations: what they build is what the code says, once, also for two who start together."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import product
from threading import Barrier

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import MetaData, inspect, select, text

from retrier.domain.outcomes import OutcomeCounts
from retrier.errors import ConfigurationError, DatabaseRefused, DatabaseUnavailable, LeaseLost
from retrier.store.engine.database import Database
from retrier.store.lease import Fence, acquire_lease, renew_lease
from retrier.store.operation_lists import find_operation
from retrier.store.schema import (
    COUNT_TRIGGERS,
    VIEWS,
    WORDS_INDEX,
    message_words,
    metadata,
    word_progress,
)
from retrier.store.upgrade import find_revision, upgrade_schema
from retrier.store.verification import verify_store
from retrier.store.verification_rules import EDIT_RULES
from tests.contract.conftest import OpenNew
from tests.contract.store_retries import SENT, STAGED, Retry, bring_to
from tests.contract.store_rows import everything_but, message, record, rows, select_rows
from tests.contract.store_shape import (
    all_rows,
    particulars_of,
    relations_of,
    sequences_of,
    shape_of,
)
from tests.contract.test_store_ended_retries import ENDS
from tests.contract.test_store_operation_outcomes import OF_END
from tests.support.api import HOLDER
from tests.support.bench import Bench
from tests.support.databases import open_database, open_upgraded, temporary_postgres
from tests.support.factories import failure
from tests.support.lived_in import live_in
from tests.support.revisions import newest_revision


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


def is_of_words(name: object, kind: str) -> bool:
    """Say whether it is an index of words: SQLite's is a table to Alembic. The next test compares it."""
    return str(name).startswith(WORDS_INDEX) or (kind == "index" and name == WORDS_OF_POSTGRES)


WORDS_OF_POSTGRES = "ix_message_words_words"


class TestAnUpgradedDatabase:
    def test_has_nothing_that_the_schema_would_change(self, database: Database) -> None:
        with database.engine.connect() as conn:
            context = MigrationContext.configure(
                conn,
                opts={
                    "compare_type": True,
                    "compare_server_default": True,
                    "include_object": lambda _object, name, kind, *_: not is_of_words(name, kind),
                },
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

    def test_is_at_the_newest_revision(self, database: Database) -> None:
        revision = find_revision(database)
        assert (revision.current, revision.wanted) == (newest_revision(), newest_revision())

    def test_is_not_changed_by_another_upgrade(self, new: Database) -> None:
        first = upgrade_schema(new)
        record(new, failure())
        before = everything_but(new)

        second = upgrade_schema(new)

        assert (first.current, second.current) == (None, first.wanted)
        assert everything_but(new) == before

    def test_has_all_views_and_no_others(self, database: Database) -> None:
        assert set(inspect(database.engine).get_view_names()) == set(VIEWS)

    def test_lets_the_lease_be_locked_against_a_takeover_only(self, database: Database) -> None:
        """The lock conflicts with changes of columns that a unique index has."""
        indexes = inspect(database.engine).get_indexes("processor_lease")
        assert [(each["column_names"], bool(each["unique"])) for each in indexes] == [
            (["epoch"], True)
        ]

    def test_shows_what_the_tables_say_in_its_views(self, database: Database) -> None:
        retry = bring_to(Bench(database), STAGED)

        (shown_message,) = select_rows(database, text("SELECT * FROM v_failed_messages"))
        (shown_claim,) = select_rows(database, text("SELECT * FROM v_failed_message_retries"))

        stored = message(database, retry.key)
        same = ["number", "status", "queue", "exception_type", "failure_seq", "attempts"]
        assert [shown_message[name] for name in same] == [stored[name] for name in same]
        assert shown_message["group_title"] == retry.first.cause.groups[0].title
        assert str(shown_claim["unique_message_id"]) == retry.key
        assert str(shown_claim["retry_id"]) == retry.retry_id

    def test_shows_a_message_once_whatever_groups_it_has(self, database: Database) -> None:
        record(database, failure(), failure(exception_type=None), failure(message_type=None))

        assert len(select_rows(database, text("SELECT * FROM v_failed_messages"))) == 3


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
        assert sequences_of(new) == []
        assert find_revision(new).current is None


BEFORE_10 = ("0001", "0006", "1001", "1029")


class TestADatabaseOfAVersionBefore10:
    """None was released, and no revision leads from it to the first one that stays."""

    def test_is_refused_in_one_line(self, upgraded: Database) -> None:
        for revision, use in product(BEFORE_10, (find_revision, upgrade_schema)):
            set_revision(upgraded, revision)

            with pytest.raises(ConfigurationError) as refused:
                use(upgraded)

            (line,) = str(refused.value).splitlines()
            place = f"database.url: the database at {upgraded.place} is at revision {revision}"
            assert line.startswith(f"{place}: a version before 1.0")
            assert "Send back what is still in it with that version" in line
            assert line.endswith("then name a new, empty database")

    def test_is_left_alone(self, upgraded: Database) -> None:
        record(upgraded, failure())
        for revision in BEFORE_10:
            set_revision(upgraded, revision)
            before = all_rows(upgraded), shape_of(upgraded), relations_of(upgraded)

            with pytest.raises(ConfigurationError):
                upgrade_schema(upgraded)

            assert (all_rows(upgraded), shape_of(upgraded), relations_of(upgraded)) == before


def set_revision(db: Database, revision: str) -> None:
    with db.engine.begin() as conn:
        conn.execute(text("UPDATE alembic_version SET version_num = :it"), {"it": revision})


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


def test_a_database_of_a_newer_version_is_refused_with_words(upgraded: Database) -> None:
    set_revision(upgraded, "9999")

    with pytest.raises(DatabaseUnavailable, match="9999"):
        upgrade_schema(upgraded)


def test_who_only_looks_is_told_that_a_newer_version_has_upgraded_it(upgraded: Database) -> None:
    """`retrier check` said that all is well, and that `retrier run` upgrades it: it only waits."""
    set_revision(upgraded, "9999")

    with pytest.raises(DatabaseRefused, match="a newer version has upgraded it"):
        find_revision(upgraded)


def test_who_is_older_than_its_database_takes_no_lease(upgraded: Database) -> None:
    set_revision(upgraded, "9999")

    with pytest.raises(DatabaseRefused, match="at revision 9999"):
        take_lease(upgraded)


def test_an_upgrade_ends_the_lease_of_who_knows_the_tables_as_they_were(upgraded: Database) -> None:
    take_2009_back(upgraded)
    fence = take_lease(upgraded)

    upgrade_schema(upgraded)

    with pytest.raises(LeaseLost):
        renew_lease(upgraded, fence)
    assert take_lease(upgraded).epoch > fence.epoch


def test_a_start_that_upgrades_nothing_ends_no_lease(upgraded: Database) -> None:
    fence = take_lease(upgraded)

    upgrade_schema(upgraded)

    renew_lease(upgraded, fence)


def take_lease(db: Database) -> Fence:
    fence = acquire_lease(db, HOLDER, timedelta(seconds=15), lambda _holder: False)
    assert isinstance(fence, Fence)
    return fence


_NEWER_TABLES = (
    "saved_views",
    "approvals",
    "login_attempts",
    "browser_sessions",
    "access_tokens",
)
"""Made by the revisions after 2002, which are done again."""


def take_2011_back(db: Database) -> None:
    """Leave the schema as it was when SQLite's planner assumed what it liked."""
    if db.is_sqlite:
        with db.engine.begin() as conn:
            conn.execute(text("DROP TABLE sqlite_stat1"))
    set_revision(db, "2010")


def take_2010_back(db: Database) -> None:
    """Leave the schema as it was before counts were kept."""
    take_2011_back(db)
    with db.engine.begin() as conn:
        for name in () if db.is_sqlite else COUNT_TRIGGERS:
            conn.execute(text(f"DROP FUNCTION message_counts_{name} CASCADE"))
        conn.execute(text("DROP TABLE message_counts"))
    set_revision(db, "2009")


def take_2009_back(db: Database) -> None:
    """Leave the schema as it was before there were words."""
    take_2010_back(db)
    with db.engine.begin() as conn:
        if db.is_sqlite:
            conn.execute(text(f"DROP TABLE {WORDS_INDEX}"))
        conn.execute(text("DROP TABLE message_words"))
        conn.execute(text("DROP TABLE word_progress"))
    set_revision(db, "2008")


def take_2008_back(db: Database) -> None:
    """Leave the schema as it was when fields had two indexes."""
    take_2009_back(db)
    with db.engine.begin() as conn:
        conn.execute(text("DROP INDEX ix_message_fields_found"))
        if db.is_sqlite:
            conn.execute(text("ALTER TABLE message_fields RENAME TO new_fields"))
            conn.execute(
                text(
                    "CREATE TABLE message_fields (number INTEGER NOT NULL, name TEXT NOT NULL, "
                    "value TEXT NOT NULL, comparable DOUBLE, "
                    "CONSTRAINT pk_message_fields PRIMARY KEY (number, name))"
                )
            )
            conn.execute(text("INSERT INTO message_fields SELECT * FROM new_fields"))
            conn.execute(text("DROP TABLE new_fields"))
        for name, columns, which in (
            ("value", "name, value, number", ""),
            ("comparable", "name, comparable, number", "WHERE comparable IS NOT NULL"),
        ):
            conn.execute(
                text(f"CREATE INDEX ix_message_fields_{name} ON message_fields ({columns}) {which}")
            )
    set_revision(db, "2007")


def take_2007_back(db: Database) -> None:
    """Leave the schema as it was before there were patches."""
    take_2008_back(db)
    with db.engine.begin() as conn:
        conn.execute(text("ALTER TABLE retry_operations DROP COLUMN patch"))
    set_revision(db, "2006")


def take_2006_back(db: Database) -> None:
    """Leave the schema as it was before there were values of fields."""
    take_2007_back(db)
    with db.engine.begin() as conn:
        conn.execute(text("DROP TABLE message_fields"))
    set_revision(db, "2005")


def take_2005_back(db: Database) -> None:
    """Leave the schema as it was before there were edits."""
    take_2006_back(db)
    with db.engine.begin() as conn:
        conn.execute(text("DROP TABLE message_edits"))
        conn.execute(text("DROP INDEX ix_failed_messages_edit_of"))
        conn.execute(text("ALTER TABLE failed_message_retries DROP COLUMN edit_id"))
        conn.execute(text("ALTER TABLE retry_operation_outcomes DROP COLUMN edited"))
    set_revision(db, "2004")


ITSELF = ("alembic_version", "processor_lease")
"""What an upgrade changes whatever it brings."""
ADDED_BY_2009 = ("message_words", "word_progress", "message_counts")
"""Tables, with that of 2010; the index of SQLite is one, too, and has some more."""
ADDED_BY_2007 = frozenset({("retry_operations", "patch")})
ADDED_BY_2005 = ADDED_BY_2007 | {
    ("failed_message_retries", "edit_id"),
    ("retry_operation_outcomes", "edited"),
}


def rows_before_2005(db: Database) -> dict[str, list[dict[str, object]]]:
    """Return what all tables hold, without what 2005 and later ones add and the revision itself."""
    return rows_before_2006(db, ADDED_BY_2005)


def rows_before_2006(
    db: Database, added: frozenset[tuple[str, str]] = frozenset()
) -> dict[str, list[dict[str, object]]]:
    """Return what all tables hold, without these columns, the lease and the revision itself.

    An upgrade ends the lease.
    """
    found = MetaData()
    with db.engine.connect() as conn:
        found.reflect(conn)
        return {
            name: sorted(
                (
                    {key: value for key, value in row.items() if (name, key) not in added}
                    for row in conn.execute(select(table)).mappings()
                ),
                key=str,
            )
            for name, table in found.tables.items()
            if name not in (*ITSELF, *ADDED_BY_2009) and not name.startswith(WORDS_INDEX)
        }


def broken_rules(db: Database) -> list[str]:
    return [rule.rule for rule in verify_store(db).rules if rule.broken]


def test_a_database_filled_before_there_were_edits_keeps_its_rows(upgraded: Database) -> None:
    live_in(upgraded)
    take_2005_back(upgraded)
    before = rows_before_2005(upgraded)

    upgrade_schema(upgraded)

    after = rows_before_2005(upgraded)
    assert after.pop("message_edits") == []
    assert after.pop("message_fields") == []
    assert after == before
    assert [rule for rule in broken_rules(upgraded) if rule not in EDIT_RULES] == []


def test_a_database_filled_before_there_were_words_keeps_its_rows(upgraded: Database) -> None:
    live_in(upgraded)
    take_2009_back(upgraded)
    before = rows_before_2006(upgraded)

    upgrade_schema(upgraded)

    assert rows_before_2006(upgraded) == before
    assert [rows(upgraded, table) for table in (message_words, word_progress)] == [[], []]
    assert broken_rules(upgraded) == []


def test_a_database_filled_before_there_were_patches_keeps_its_rows(upgraded: Database) -> None:
    live_in(upgraded)
    take_2007_back(upgraded)
    before = rows_before_2006(upgraded)

    upgrade_schema(upgraded)

    assert rows_before_2006(upgraded, ADDED_BY_2007) == before
    assert broken_rules(upgraded) == []


def test_a_database_filled_while_fields_had_two_indexes_keeps_its_rows(upgraded: Database) -> None:
    live_in(upgraded)
    record(upgraded, failure(fields={"city": "Ulm", "order": "7"}))
    take_2008_back(upgraded)
    before = rows_before_2006(upgraded)
    assert before["message_fields"]

    upgrade_schema(upgraded)

    assert rows_before_2006(upgraded) == before
    assert broken_rules(upgraded) == []


def test_a_database_filled_before_there_were_fields_keeps_its_rows(upgraded: Database) -> None:
    live_in(upgraded)
    take_2006_back(upgraded)
    before = rows_before_2006(upgraded, ADDED_BY_2007)

    upgrade_schema(upgraded)

    after = rows_before_2006(upgraded, ADDED_BY_2007)
    assert after.pop("message_fields") == []
    assert after == before
    assert broken_rules(upgraded) == []


def outcomes_after_2002(retry: Retry, *, deleted: bool = False) -> OutcomeCounts:
    """Take 2002 back, with or without what is kept of ended retries, and upgrade again."""
    db = retry.bench.db
    take_2005_back(db)
    with db.engine.begin() as conn:
        for newer in _NEWER_TABLES:
            conn.execute(text(f"DROP TABLE {newer}"))
        conn.execute(text("DROP TABLE retry_operation_outcomes"))
        conn.execute(text("DROP INDEX ix_ended_retries_operation"))
        if deleted:
            conn.execute(text("DELETE FROM ended_retries"))
    set_revision(db, "2001")
    upgrade_schema(db)
    found = find_operation(db, retry.operation["operation_id"])
    assert found is not None
    return found.operation.outcomes


@pytest.mark.parametrize("end", ENDS)
def test_what_became_of_retries_is_counted_from_what_is_kept(upgraded: Database, end: str) -> None:
    retry = bring_to(Bench(upgraded), SENT)
    ENDS[end](retry)

    assert outcomes_after_2002(retry) == OF_END[end]


def test_what_came_back_late_is_counted_as_that(upgraded: Database) -> None:
    retry = bring_to(Bench(upgraded), SENT)
    ENDS["presumed"](retry)
    retry.fail(retry_id=retry.retry_id)

    assert outcomes_after_2002(retry) == OutcomeCounts(came_back=1)


def test_what_became_of_retries_whose_messages_are_deleted_is_unknown(upgraded: Database) -> None:
    retry = bring_to(Bench(upgraded), SENT)
    retry.confirm()

    assert outcomes_after_2002(retry, deleted=True) == OutcomeCounts(unknown=1)
    assert [rule.rule for rule in verify_store(upgraded).rules if rule.broken] == []


def test_what_waits_is_not_counted_as_ended(upgraded: Database) -> None:
    assert outcomes_after_2002(bring_to(Bench(upgraded), SENT)) == OutcomeCounts()


@pytest.mark.postgres
def test_what_failed_messages_hold_is_compressed_by_lz4_where_the_server_has_it(
    postgres_url: str,
) -> None:
    with temporary_postgres(postgres_url) as url:
        db = open_upgraded(url)

        assert compressions(db) == ({"l"} if knows_lz4(db) else set())
        db.dispose()
