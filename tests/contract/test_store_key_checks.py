"""What rows refer to is looked up with one plan for many of them, where all else has a plan each."""

from collections.abc import Iterator, Mapping

import pytest
from sqlalchemy import Table, text

from retrier.domain.failed_message import Failure
from retrier.store.engine.database import Database
from retrier.store.schema import cause_groups, causes, failed_messages, processing_attempts
from retrier.store.schema import metadata as tables
from tests.contract.store_rows import record
from tests.support.databases import open_database, temporary_postgres
from tests.support.factories import failure

pytestmark = pytest.mark.postgres

MANY = 100
NOTES = """
CREATE TABLE plans (of text, mode text, scans text);
CREATE FUNCTION note_plans() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO plans VALUES (TG_TABLE_NAME, current_setting('plan_cache_mode'), current_setting('enable_seqscan'));
  RETURN NULL;
END $$;
"""


@pytest.fixture
def noting(postgres_url: str, upgraded_postgres: str) -> Iterator[Database]:
    """Give a database that notes how a session plans, each time rows were added to a table."""
    with temporary_postgres(postgres_url, upgraded_postgres) as url:
        db = open_database(url)
        with db.engine.begin() as conn:
            conn.execute(text(NOTES))
            for table in tables.sorted_tables:
                conn.execute(
                    text(
                        f"CREATE TRIGGER noting AFTER INSERT ON {table.name} "
                        "FOR EACH STATEMENT EXECUTE FUNCTION note_plans()"
                    )
                )
        yield db
        db.dispose()


def noted(db: Database) -> Mapping[str, tuple[str, str]]:
    """Return how the session planned, by table."""
    found = db.read(lambda tx: tx.execute(text("SELECT * FROM plans")).all())
    return {of: (mode, scans) for of, mode, scans in found}


def alone(count: int) -> list[Failure]:
    """Make failures with a cause each."""
    return [failure(exception_type=f"Shop.Error{number}") for number in range(count)]


ONCE, EACH = ("force_generic_plan", "off"), "force_custom_plan"


@pytest.mark.parametrize("table", [failed_messages, cause_groups])
def test_many_rows_are_checked_by_one_plan_that_goes_by_the_index(
    noting: Database, table: Table
) -> None:
    record(noting, *alone(MANY))

    assert noted(noting)[table.name] == ONCE


@pytest.mark.parametrize("table", [processing_attempts, causes])
def test_a_table_that_refers_to_none_changes_no_plan(noting: Database, table: Table) -> None:
    record(noting, *alone(MANY))

    assert noted(noting)[table.name][0] == EACH


def test_a_single_failure_is_spared_the_round_trips(noting: Database) -> None:
    record(noting, failure())

    assert {mode for mode, _ in noted(noting).values()} == {EACH}


def test_the_next_transaction_plans_as_before(noting: Database) -> None:
    record(noting, *alone(MANY))

    shown = text("SELECT current_setting('plan_cache_mode'), current_setting('enable_seqscan')")
    assert tuple(noting.transact(lambda tx: tx.execute(shown).one())) == (EACH, "on")
