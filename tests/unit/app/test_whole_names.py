"""Whether a queue with `@` in its name exists: remembered for a while, and never asked too often."""

import pytest

from retrier.app.queue_looks import KEPT, KEPT_UNKNOWN, MOST_NAMES, WholeNames
from retrier.http.parts import MissingQueues
from tests.support.frozen_clock import FrozenClock

NAME = "billing@eu"
UNKNOWN = [MissingQueues(why_not="away"), MissingQueues(unsure={NAME: "silent"})]


class Broker:
    """Gives one answer to everything, and notes what it is asked."""

    def __init__(self) -> None:
        self.answer = MissingQueues()
        self.asked: list[str] = []

    def look_at(self, queues: list[str]) -> MissingQueues:
        """Answer (QueueLooks)."""
        self.asked += queues
        return self.answer


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def names(broker: Broker, clock: FrozenClock) -> WholeNames:
    return WholeNames(broker.look_at, clock)


def test_a_queue_that_is_there_is_found(names: WholeNames) -> None:
    assert names.exists(NAME)


def test_one_that_is_missing_is_not(names: WholeNames, broker: Broker) -> None:
    broker.answer = MissingQueues(missing=frozenset({NAME}))

    assert not names.exists(NAME)


def test_an_answer_is_remembered(names: WholeNames, broker: Broker) -> None:
    assert [names.exists(NAME) for _ in range(3)] == [True] * 3
    assert broker.asked == [NAME]


def test_an_answer_does_not_hold_for_ever(
    names: WholeNames, broker: Broker, clock: FrozenClock
) -> None:
    broker.answer = MissingQueues(missing=frozenset({NAME}))
    names.exists(NAME)
    broker.answer = MissingQueues()
    clock.advance(KEPT)

    assert names.exists(NAME)


@pytest.mark.parametrize("unknown", UNKNOWN, ids=repr)
def test_what_nobody_can_say_is_no_queue_and_soon_asked_again(
    names: WholeNames, broker: Broker, clock: FrozenClock, unknown: MissingQueues
) -> None:
    broker.answer = unknown
    found = [names.exists(NAME), names.exists(NAME)]
    broker.answer = MissingQueues()
    clock.advance(KEPT_UNKNOWN)

    assert found == [False, False]
    assert broker.asked == [NAME]
    assert names.exists(NAME)


def test_many_names_are_not_all_asked(names: WholeNames, broker: Broker) -> None:
    found = [names.exists(f"{number}@x") for number in range(MOST_NAMES + 5)]

    assert len(broker.asked) == MOST_NAMES
    assert found[MOST_NAMES:] == [False] * 5


def test_a_broker_that_is_away_is_not_asked_about_every_name(
    names: WholeNames, broker: Broker, clock: FrozenClock
) -> None:
    broker.answer = UNKNOWN[0]
    names.exists(NAME)
    broker.answer = MissingQueues()

    assert not names.exists("bills@eu")
    assert broker.asked == [NAME]
    clock.advance(KEPT_UNKNOWN)
    assert names.exists("bills@eu")
