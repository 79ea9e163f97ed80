"""Which tests run on PostgreSQL each time, of those that run on SQLite as well."""

from collections.abc import Iterator, Sequence
from zlib import crc32

import pytest

IN_TURNS = ("tests/unit/api/", "tests/unit/web/", "tests/stages/", "tests/properties/test_openapi")
"""What they ask of a database is asked by tests of the store, and those all run on both."""
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
    return crc32(item.nodeid.encode()) % TURNS == 0


def left_out(items: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield the two thirds that run on PostgreSQL with `pytest -m kills` only.

    What runs on PostgreSQL alone is never among them.
    """
    names = {item.nodeid for item in items}
    for item in items:
        name = item.nodeid
        in_turns = name.startswith(IN_TURNS) and not name.startswith(OF_THE_STORE)
        on_postgres = item.get_closest_marker("postgres") is not None
        has_twin = "postgres" in name and name.replace("postgres", "sqlite") in names
        if in_turns and on_postgres and has_twin and not is_its_turn(item):
            yield item
