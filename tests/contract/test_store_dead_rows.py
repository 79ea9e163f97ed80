"""Dead rows that stay in PostgreSQL's tables, because nobody vacuums them, are told."""

import psycopg
import pytest

from retrier.app.readiness import describe_database
from retrier.store.engine.database import Database
from retrier.store.upkeep import find_vacuum_warnings
from tests.support.databases import empty
from tests.support.servers import psycopg_url
from tests.support.waiting import wait_until

DEADLINE = 30.0
FEW = 20
MAKE = """
INSERT INTO message_redirects (from_queue, to_queue, modified_at)
SELECT 'from ' || n, 'to', now() FROM generate_series(1, %s) AS n
"""
OFF = "ALTER TABLE message_redirects SET (autovacuum_enabled = false)"
ON = "ALTER TABLE message_redirects RESET (autovacuum_enabled)"


@pytest.fixture
def postgres(shared_postgres: Database) -> Database:
    empty(shared_postgres)
    return shared_postgres


def run(db: Database, *statements: str) -> None:
    """Run statements in a session that ends: only then the server counts what it has done."""
    url = psycopg_url(db.engine.url.render_as_string(hide_password=False))
    with psycopg.connect(url, autocommit=True) as conn:
        for each in statements:
            conn.execute(each)


def of_redirects(db: Database) -> list[str]:
    """Return what is told of this table: the server may be set up in any way."""
    found = find_vacuum_warnings(db, FEW)
    return [each for each in found if "message_redirects" in each]


@pytest.mark.postgres
def test_a_table_that_is_mostly_dead_is_told_until_it_is_vacuumed(postgres: Database) -> None:
    make = MAKE % (2 * FEW)
    run(postgres, make, "DELETE FROM message_redirects")

    wait_until(lambda: of_redirects(postgres), DEADLINE, "dead rows are not told")

    (told,) = of_redirects(postgres)
    assert " dead rows and 0 others: VACUUM message_redirects" in told
    run(postgres, "VACUUM message_redirects")
    wait_until(lambda: not of_redirects(postgres), DEADLINE, "they are told still")


@pytest.mark.postgres
def test_a_table_that_is_never_vacuumed_is_told(postgres: Database) -> None:
    (is_off,) = postgres.read(lambda tx: tx.conn.exec_driver_sql("SHOW autovacuum").scalars())
    run(postgres, OFF)
    try:
        found = " ".join(find_vacuum_warnings(postgres))
    finally:
        run(postgres, ON)

    # Where the whole server does not, that is what is told.
    assert ("autovacuum is off for the table message_redirects" in found) is (is_off == "on")
    assert ("autovacuum is off on this server" in found) is (is_off == "off")


def test_sqlite_has_no_dead_rows(shared_sqlite: Database) -> None:
    assert find_vacuum_warnings(shared_sqlite, 0) == ()


def test_health_tells_it_and_the_database_stays_ready() -> None:
    assert (
        describe_database(0, vacuum=["t has 9 dead rows"]) == "reached; warning: t has 9 dead rows"
    )
