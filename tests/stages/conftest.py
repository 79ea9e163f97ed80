"""At the end of every test of the stages, whatever it did to them, everything has to add up."""

from collections.abc import Iterator

import pytest
from sqlalchemy import literal, select, union_all

from retrier.store.engine.database import Database
from retrier.store.verification import DIFFERENCES
from retrier.store.verification_rules import RULES
from tests.support.flaky_database import FlakyDatabase

BROKEN = union_all(*(select(literal(rule)).where(query.exists()) for rule, query in RULES.items()))
"""The rules that rows break, asked at once: one by one they took a quarter of the time of a test."""


@pytest.fixture(autouse=True)
def adds_up(request: pytest.FixtureRequest) -> Iterator[None]:
    """Look at every rule afterwards."""
    if "database" not in request.fixturenames:
        yield
        return
    db: Database = request.getfixturevalue("database")
    yield
    of_rows = db.read(lambda tx: tx.execute(BROKEN).scalars().all())
    of_sums = db.read(lambda tx: [rule for rule, sum_up in DIFFERENCES.items() if sum_up(tx)])
    assert [*of_rows, *of_sums] == []


@pytest.fixture
def flaky(database: Database) -> FlakyDatabase:
    """Give the database, which can be told to fail."""
    return FlakyDatabase(database)
