"""The page on an empty database, on SQLite and on PostgreSQL."""

from collections.abc import Iterator

import pytest

from retrier.store.engine.database import Database
from tests.support.api import Api
from tests.support.web import Web


@pytest.fixture
def web(database: Database) -> Iterator[Web]:
    """Give the page, and what feeds it."""
    api = Api(database)
    made = Web(api)
    yield made
    made.close()
    api.http.close()
