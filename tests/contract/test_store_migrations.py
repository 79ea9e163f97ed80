"""Migrations: what they build is what the code says, once, also for two who start together."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import inspect, text

from retrier.errors import DatabaseUnavailable
from retrier.store.verbs import upgrade
from retrier.store.engine.database import Database, DatabaseOptions
from retrier.store.schema import failed_message_groups, metadata, staging_ids
from retrier.store.verbs.upgrade import find_revision, upgrade_schema
from tests.contract.store_retries import STAGED, bring_to
from tests.contract.store_rows import everything_but, record, rows
from tests.support.bench import Bench
from tests.support.databases import open_upgraded, sqlite_url, temporary_postgres
from tests.support.factories import failure


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def open_new(request, tmp_path):
    """Give a function that opens a new database without tables."""
    with ExitStack() as stack:

        def open_one():
            if request.param == "sqlite":
                url = sqlite_url(tmp_path)
            else:
                server = request.getfixturevalue("postgres_url")
                url = stack.enter_context(temporary_postgres(server))
            db = Database(DatabaseOptions(url=url))
            stack.callback(db.dispose)
            return db

        yield open_one


@pytest.fixture
def new(open_new):
    """Give a database without tables."""
    return open_new()


def shape_of(db):
    """Return everything the database itself says of its tables."""
    with db.engine.connect() as conn:
        inspector = inspect(conn)
        return {
            name: {
                "columns": [{**c, "type": repr(c["type"])} for c in inspector.get_columns(name)],
                "primary key": inspector.get_pk_constraint(name),
                "foreign keys": sorted(inspector.get_foreign_keys(name), key=by_name),
                "unique": sorted(inspector.get_unique_constraints(name), key=by_name),
                "checks": sorted(inspector.get_check_constraints(name), key=by_name),
                "indexes": sorted(map(shown, inspector.get_indexes(name)), key=by_name),
            }
            for name in inspector.get_table_names()
            if name != "alembic_version"
        }


def shown(index):
    return {**index, "dialect_options": {k: str(v) for k, v in index["dialect_options"].items()}}


def compressions(db):
    """Return the compression methods that are set on columns."""
    if not knows_lz4(db):
        return set()
    query = "SELECT DISTINCT attcompression FROM pg_attribute WHERE attcompression <> ''"
    with db.engine.connect() as conn:
        return set(conn.scalars(text(query)))


def knows_lz4(db):
    query = (
        "SELECT EXISTS (SELECT 1 FROM pg_settings "
        "WHERE name = 'default_toast_compression' AND 'lz4' = ANY(enumvals))"
    )
    with db.engine.connect() as conn:
        return conn.scalar(text(query))


def by_name(constraint):
    return constraint["name"]


def run_alembic(db, step):
    """Run a step of Alembic in one transaction."""
    config = Config()
    config.set_main_option("script_location", str(Path(upgrade.__file__).parent / "migrations"))
    with db.engine.begin() as conn:
        config.attributes["connection"] = conn
        step(config)


class TestAnUpgradedDatabase:
    def test_has_nothing_that_the_schema_would_change(self, new):
        upgrade_schema(new)

        with new.engine.connect() as conn:
            context = MigrationContext.configure(
                conn, opts={"compare_type": True, "compare_server_default": True}
            )
            assert compare_metadata(context, metadata) == []

    def test_is_what_the_schema_alone_would_make(self, open_new):
        """Check constraints, too, which Alembic does not compare."""
        upgraded, made = open_new(), open_new()
        upgrade_schema(upgraded)

        metadata.create_all(made.engine)

        assert shape_of(upgraded) == shape_of(made)

    def test_says_where_it_stands(self, new):
        upgrade_schema(new)

        revision = find_revision(new)
        assert revision.is_current
        assert revision.current == revision.wanted

    def test_is_not_changed_by_another_upgrade(self, new):
        first = upgrade_schema(new)
        record(new, failure())
        before = everything_but(new)

        second = upgrade_schema(new)

        assert (first.current, second.current) == (None, first.wanted)
        assert everything_but(new) == before

    def test_takes_failures(self, new):
        upgrade_schema(new)

        assert record(new, failure()).new == 1


class TestADatabaseThatIsNotUpgraded:
    def test_says_so(self, new):
        revision = find_revision(new)

        assert (revision.current, revision.is_current) == (None, False)

    def test_stays_as_it_was_if_the_upgrade_fails(self, new):
        """All revisions are one transaction: a database is never between two versions."""
        with new.engine.begin() as conn:
            conn.execute(text("CREATE TABLE ledger (mine text)"))

        with pytest.raises(Exception, match="ledger"):
            upgrade_schema(new)

        assert set(shape_of(new)) == {"ledger"}
        assert find_revision(new).current is None


def test_two_upgrades_at_once_are_one(open_new):
    db = open_new()
    ready = Barrier(2, timeout=10)

    def start():
        ready.wait()
        return upgrade_schema(db).current

    with ThreadPoolExecutor(2) as pool:
        found = [each.result(30) for each in [pool.submit(start), pool.submit(start)]]

    wanted = find_revision(db).wanted
    assert sorted(found, key=str) == sorted([None, wanted], key=str)


def test_a_database_of_a_newer_version_is_refused_with_words(new):
    upgrade_schema(new)
    with new.engine.begin() as conn:
        conn.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    with pytest.raises(DatabaseUnavailable, match="9999"):
        upgrade_schema(new)


class TestADowngrade:
    def test_leaves_nothing(self, new):
        upgrade_schema(new)

        run_alembic(new, lambda config: command.downgrade(config, "base"))

        assert shape_of(new) == {}

    def test_can_be_undone(self, new):
        upgrade_schema(new)
        shape = shape_of(new)
        run_alembic(new, lambda config: command.downgrade(config, "base"))

        upgrade_schema(new)

        assert shape_of(new) == shape

    @pytest.mark.parametrize("revision", ["0001", "0002", "0003", "0005"])
    def test_of_one_step_leaves_the_tables_of_the_steps_before(self, new, revision):
        upgrade_schema(new)

        run_alembic(new, lambda config: command.downgrade(config, revision))

        assert find_revision(new).current == revision
        assert "failed_messages" in shape_of(new)

    def test_leaves_failures_as_they_are(self, new):
        upgrade_schema(new)
        record(new, failure())
        before = everything_but(new)

        run_alembic(new, lambda config: command.downgrade(config, "0003"))
        upgrade_schema(new)

        assert everything_but(new) == before

    def test_drops_groups_of_messages_that_somebody_deleted(self, new):
        upgrade_schema(new)
        record(new, failure())
        with new.engine.begin() as conn:
            conn.execute(text("DELETE FROM failed_messages"))

        run_alembic(new, lambda config: command.downgrade(config, "0003"))

        assert rows(new, failed_message_groups) == []


class TestAnUpgradeTo0006:
    """Of a database in the middle of its work, as a version without staging ids leaves it."""

    @pytest.fixture
    def lived_in(self, new):
        upgrade_schema(new)
        bench = Bench(new)
        bring_to(bench, STAGED)
        bench.fail(2)
        run_alembic(new, lambda config: command.downgrade(config, "0005"))
        return bench

    def test_leaves_every_row_as_it_is(self, lived_in):
        before = everything_but(lived_in.db, staging_ids)

        upgrade_schema(lived_in.db)

        assert everything_but(lived_in.db, staging_ids) == before

    def test_knows_the_staging_id_of_the_batch_in_forwarding(self, lived_in):
        (batch,) = lived_in.batches()

        upgrade_schema(lived_in.db)

        (known,) = rows(lived_in.db, staging_ids)
        assert known == {"staging_id": batch["staging_id"], "made_at": batch["modified_at"]}

    def test_lets_the_work_go_on(self, lived_in):
        upgrade_schema(lived_in.db)

        lived_in.restart()
        lived_in.work()

        assert len(lived_in.sent()) == 1
        assert lived_in.batches() == []


class TestCompression:
    """Of what failed messages hold, on PostgreSQL."""

    @pytest.fixture
    def postgres(self, postgres_url):
        with temporary_postgres(postgres_url) as url:
            db = open_upgraded(url)
            yield db
            db.dispose()

    def test_is_lz4_where_the_server_has_it(self, postgres):
        assert compressions(postgres) == ({"l"} if knows_lz4(postgres) else set())

    def test_is_the_servers_own_after_a_downgrade(self, postgres):
        run_alembic(postgres, lambda config: command.downgrade(config, "0003"))

        assert compressions(postgres) == set()
