"""Verification at size: what a rule costs grows with its tables, and not with one times the other."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from sqlalchemy import Connection, event

from retrier.store.engine.database import Database
from retrier.store.verification import verify_store

Plan = Mapping[str, Any]

OF_ONE_ROW = {"retry_batch_now_forwarding"}
"""Never more than one row: no index is needed."""


def asked(db: Database) -> Sequence[tuple[str, Any]]:
    """Return what verification asks the database, with parameters."""
    noted: list[tuple[str, Any]] = []

    def note(
        _conn: object, _cursor: object, statement: str, parameters: object, *_: object
    ) -> None:
        if statement.lstrip().startswith("SELECT"):
            noted.append((statement, parameters))

    event.listen(db.engine, "before_cursor_execute", note)
    try:
        verify_store(db)
    finally:
        event.remove(db.engine, "before_cursor_execute", note)
    return noted


def scans_again_on_sqlite(conn: Connection, statement: str, parameters: Any) -> Iterator[str]:
    """Yield the tables that are read whole for each row of another one."""
    rows = conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
    correlated: set[int] = set()
    scanned: set[int] = set()
    for number, parent, _, told in rows:
        if told.startswith("CORRELATED") or parent in correlated:
            correlated.add(number)
        if told.startswith("SCAN") and (parent in correlated or parent in scanned):
            yield told.split()[1]
        if told.startswith("SCAN"):
            scanned.add(parent)  # what is read beside it is read for each of its rows


def scans_again_on_postgres(conn: Connection, statement: str, parameters: Any) -> Iterator[str]:
    """Yield the same. Without statistics, and with all else made dear, an index is used if any can."""
    for name in ("enable_seqscan", "enable_nestloop", "enable_bitmapscan"):
        conn.exec_driver_sql(f"SET LOCAL {name} = off")
    explained = conn.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", parameters).scalar_one()
    yield from _scans_again(explained[0]["Plan"], str(explained), again=False)


def _scans_again(plan: Plan, whole: str, *, again: bool) -> Iterator[str]:
    if again and plan["Node Type"] == "Seq Scan":
        yield plan["Relation Name"]
    for each in plan.get("Plans", ()):
        name = str(each.get("Subplan Name"))
        of_each_row = (
            each["Parent Relationship"] == "SubPlan" and f"hashed {name}" not in whole
        ) or (each["Parent Relationship"] == "Inner" and plan["Node Type"] == "Nested Loop")
        yield from _scans_again(each, whole, again=again or of_each_row)


def scans_again(db: Database) -> Iterator[tuple[str, str]]:
    """Yield what verification reads whole again and again, with the statement."""
    look = scans_again_on_sqlite if db.is_sqlite else scans_again_on_postgres
    for statement, parameters in asked(db):
        with db.engine.begin() as conn:
            for table in look(conn, statement, parameters):
                yield table, statement


def test_no_rule_reads_a_table_for_each_row_of_another(database: Database) -> None:
    found = {
        table: statement for table, statement in scans_again(database) if table not in OF_ONE_ROW
    }

    assert found == {}


@pytest.mark.parametrize(
    "statement",
    [
        (
            "SELECT operation_id FROM retry_operations WHERE total < (SELECT count(*) FROM "
            "failed_message_retries WHERE failed_message_retries.operation_id = "
            "retry_operations.operation_id)"
        ),
        (
            "SELECT 1 FROM retry_operations JOIN failed_message_retries ON "
            "failed_message_retries.forwarded_at > retry_operations.created_at"
        ),
    ],
)
def test_one_that_did_would_be_found(database: Database, statement: str) -> None:
    look = scans_again_on_sqlite if database.is_sqlite else scans_again_on_postgres
    with database.engine.begin() as conn:
        assert list(look(conn, statement, ()))
