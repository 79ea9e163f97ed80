"""On which database the tests of API and page run."""

from zlib import crc32

import pytest

FACES = ("tests/unit/api/", "tests/unit/web/")
OF_THE_STORE = tuple(
    f"tests/unit/api/test_{each}"
    for each in (
        "error_lists",
        "error_order",
        "error_places",
        "history",
        "id_prefix",
        "list_filters",
        "live_feed.py::test_only_what_is_wanted_is_told",
        "message_history",
        "message_views",
        "pending",
        "previews",
        "progress.py::test_a_lease_given_back_is_held_by_nobody",
        "range_ends",
        "recovery",
        "times.py::test_both_databases",
    )
)
"""Through the API they send statements that no test of the store sends: all run on both."""
TURNS = 3


def is_its_turn(item: pytest.Item) -> bool:
    """Say whether a test is among the third that runs on PostgreSQL each time; it stays the same."""
    return crc32(item.nodeid.partition("[")[0].encode()) % TURNS == 0


def may_be_left_out(item: pytest.Item) -> bool:
    """Say whether a test is of a face, and on PostgreSQL."""
    of_a_face = item.nodeid.startswith(FACES) and not item.nodeid.startswith(OF_THE_STORE)
    return of_a_face and item.get_closest_marker("postgres") is not None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave two thirds of the faces' tests on PostgreSQL to `pytest -m kills tests/unit`.

    What they ask the store is tested there on either database.
    """
    for item in items:
        if may_be_left_out(item) and not is_its_turn(item):
            item.add_marker(pytest.mark.kills)
