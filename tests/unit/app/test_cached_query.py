"""A look that may hang: it is bounded, shared and repeated with care."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from retrier.app.cached_query import CachedQuery, CacheTimes
from retrier.errors import DatabaseUnavailable
from tests.support.frozen_clock import FrozenClock
from tests.support.waiting import wait_until

PATIENCE = CacheTimes(
    wait=timedelta(seconds=30),
    keep=timedelta(seconds=5),
    hang=timedelta(seconds=10),
    times_its_cost=10,
)
AT_ONCE = CacheTimes(
    wait=timedelta(seconds=30), keep=timedelta(seconds=0), hang=timedelta(seconds=0)
)
HURRY = timedelta(seconds=0.2)
"""How long a look is waited for that does not come. Those that come may be late by themselves."""


class Database:
    """Counts the looks; one that is frozen answers when it is thawed."""

    def __init__(self) -> None:
        self.clock = FrozenClock()
        self.looks = 0
        self.cost = 0.0
        self.fault: Exception | None = None
        self.thawed = threading.Event()
        self.thawed.set()

    def look(self) -> int:
        self.looks += 1
        self.thawed.wait(10)
        self.clock.advance(self.cost)
        if self.fault is not None:
            raise self.fault
        return self.looks

    def cached(self, times: CacheTimes = PATIENCE) -> CachedQuery[int]:
        return CachedQuery(self.look, self.clock, times)


@pytest.fixture
def database() -> Iterator[Database]:
    """Give a database whose frozen looks end with the test."""
    made = Database()
    yield made
    made.thawed.set()


def test_what_was_seen_is_shown_again_for_a_while(database: Database) -> None:
    cached = database.cached()

    assert [cached.read(), cached.read()] == [1, 1]

    database.clock.advance(5)
    assert cached.read() == 2


def test_a_costly_look_is_shown_again_for_longer(database: Database) -> None:
    database.cost = 2
    cached = database.cached()
    cached.read()

    database.clock.advance(19)
    assert cached.read() == 1
    database.clock.advance(1)
    assert cached.read() == 2


def test_no_look_is_shown_again_for_more_than_a_minute(database: Database) -> None:
    database.cost = 100
    cached = database.cached()
    cached.read()

    database.clock.advance(60)

    assert cached.read() == 2


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (DatabaseUnavailable("connection refused"), "connection refused"),
        (ZeroDivisionError("x"), "unforeseen ZeroDivisionError"),
    ],
)
def test_a_look_that_fails_says_why_until_the_next(
    database: Database, fault: Exception, reason: str
) -> None:
    database.fault = fault
    cached = database.cached()
    for _ in range(2):
        with pytest.raises(DatabaseUnavailable, match=reason):
            cached.read()
    assert database.looks == 1

    database.fault = None
    database.clock.advance(5)

    assert cached.read() == 2


def test_a_look_that_failed_late_is_repeated_soon(database: Database) -> None:
    database.cost, database.fault = 30, DatabaseUnavailable("connection timeout expired")
    cached = database.cached()
    with pytest.raises(DatabaseUnavailable):
        cached.read()

    database.fault = None
    database.clock.advance(5)

    assert cached.read() == 2


def freeze(database: Database, cached: CachedQuery[int]) -> None:
    """Let one look succeed and the next one hang."""
    wait_until(lambda: answers(cached.read), 30)
    database.thawed.clear()
    database.clock.advance(5)


def test_while_a_look_takes_its_time_the_last_one_stands(database: Database) -> None:
    cached = database.cached(replace(PATIENCE, wait=HURRY))
    freeze(database, cached)

    assert [cached.read(), cached.read()] == [1, 1]
    wait_until(lambda: database.looks == 2, 30)


def test_a_look_that_hangs_is_an_error_in_the_end(database: Database) -> None:
    cached = database.cached(replace(PATIENCE, wait=HURRY))
    freeze(database, cached)
    cached.read()

    database.clock.advance(10)

    with pytest.raises(DatabaseUnavailable, match="not answered for 10 s"):
        cached.read()


def test_the_first_look_is_not_waited_for_longer_than_any(database: Database) -> None:
    database.thawed.clear()

    with pytest.raises(DatabaseUnavailable, match="not answered"):
        database.cached(replace(PATIENCE, wait=HURRY)).read()


def test_without_times_the_last_look_does_not_stand(database: Database) -> None:
    cached = database.cached(replace(AT_ONCE, wait=HURRY))
    freeze(database, cached)

    with pytest.raises(DatabaseUnavailable, match="not answered"):
        cached.read()


def test_a_look_that_is_never_shown_again_may_cost_what_it_will(database: Database) -> None:
    database.cost = 2
    cached = database.cached(AT_ONCE)

    assert [cached.read(), cached.read()] == [1, 2]


def test_a_look_that_hung_is_over_when_it_answers(database: Database) -> None:
    cached = database.cached(replace(AT_ONCE, wait=HURRY))
    freeze(database, cached)
    with pytest.raises(DatabaseUnavailable):
        cached.read()

    database.thawed.set()

    wait_until(lambda: answers(cached.read, 2), 30)


def answers(read: Callable[[], int], at_least: int = 1) -> bool:
    try:
        return read() >= at_least
    except DatabaseUnavailable:
        return False
