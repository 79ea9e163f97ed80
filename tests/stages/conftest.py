"""At the end of every test of the stages, whatever it did to them, everything has to add up."""

from collections.abc import Iterator

import pytest

from retrier.store.database import Database
from retrier.store.verification import verify_store


@pytest.fixture(autouse=True)
def adds_up(request: pytest.FixtureRequest) -> Iterator[None]:
    """Look at every rule afterwards, unless the test itself bends rows (`bends_rows`)."""
    if "database" not in request.fixturenames or request.node.get_closest_marker("bends_rows"):
        yield
        return
    db: Database = request.getfixturevalue("database")
    yield
    assert [rule for rule in verify_store(db).rules if rule.broken] == []
