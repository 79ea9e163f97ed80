"""At the end of every test of the stages, whatever it did to them, everything has to add up."""

from collections.abc import Iterator

import pytest

from retrier.store.engine.database import Database
from retrier.store.verification import verify_store
from tests.support.flaky_database import FlakyDatabase


@pytest.fixture(autouse=True)
def adds_up(request: pytest.FixtureRequest) -> Iterator[None]:
    """Look at every rule afterwards."""
    if "database" not in request.fixturenames:
        yield
        return
    db: Database = request.getfixturevalue("database")
    yield
    assert [rule for rule in verify_store(db).rules if rule.broken] == []


@pytest.fixture
def flaky(database: Database) -> FlakyDatabase:
    """Give the database, which can be told to fail."""
    return FlakyDatabase(database)
