"""On which database the tests of the page run."""

from zlib import crc32

import pytest

PAGE = "tests/unit/web/"
TURNS = 3


def is_its_turn(item: pytest.Item) -> bool:
    """Say whether a test is among the third that runs on PostgreSQL each time; it stays the same."""
    return crc32(item.nodeid.partition("[")[0].encode()) % TURNS == 0


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave two thirds of the page's tests on PostgreSQL to `pytest -m kills tests/unit`.

    What the page asks the store is tested there, and by the API, on either database.
    """
    for item in items:
        on_postgres = item.get_closest_marker("postgres") is not None
        if item.nodeid.startswith(PAGE) and on_postgres and not is_its_turn(item):
            item.add_marker(pytest.mark.kills)
