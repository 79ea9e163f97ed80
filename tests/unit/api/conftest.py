"""An API on an empty database, on SQLite and on PostgreSQL."""

from collections.abc import Iterator

import pytest

from retrier.store.engine.database import Database
from tests.support.api import Api


@pytest.fixture
def api(database: Database) -> Iterator[Api]:
    """Give the API; what it is told to wake, it counts."""
    made = Api(database)
    yield made
    made.http.close()
