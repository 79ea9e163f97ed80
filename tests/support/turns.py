"""Which tests run each time, of those that run on both databases or on both brokers."""

from collections.abc import Collection, Iterator, Sequence
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
BROKERS = ("quorum", "embedded")
JOURNEYS_ON_BOTH = tuple(
    f"tests/journeys/test_when_{each}"
    for each in ("an_operation_is_stopped", "messages_are_a_stream", "messages_failed_are_retried")
)
"""The main job, the order of streams, and how an operation is stopped: both run each time."""


def is_its_turn(item: pytest.Item) -> bool:
    """Say whether a test is among the third that runs on PostgreSQL each time; it stays the same."""
    return crc32(item.nodeid.encode()) % TURNS == 0


def left_out(items: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield what runs with `pytest -m kills` only: two thirds on PostgreSQL, journeys on one broker.

    What runs on one database or one broker alone is never among them.
    """
    names = {item.nodeid for item in items}
    for item in items:
        if is_on_the_other_broker(item.nodeid, names) and not measures_time(item):
            yield item
        name = item.nodeid
        in_turns = name.startswith(IN_TURNS) and not name.startswith(OF_THE_STORE)
        on_postgres = item.get_closest_marker("postgres") is not None
        has_twin = "postgres" in name and name.replace("postgres", "sqlite") in names
        if in_turns and on_postgres and has_twin and not is_its_turn(item):
            yield item


def is_on_the_other_broker(name: str, names: Collection[str]) -> bool:
    """Say whether a journey takes place on the other broker each time; it stays the same one."""
    if not name.startswith("tests/journeys/") or name.startswith(JOURNEYS_ON_BOTH):
        return False
    twins = [name.replace(here, there) for here in BROKERS for there in BROKERS if here in name]
    both = sorted({*twins} & {*names})
    return len(both) == len(BROKERS) and both[crc32(both[0].encode()) % len(BROKERS)] != name


def measures_time(item: pytest.Item) -> bool:
    """Say whether it has a run of its own."""
    return any(item.get_closest_marker(mark) for mark in ("alone", "waits"))
