"""When a worker takes nothing, and when it goes on."""

from threading import Event

import pytest

from retrier.worker.connections import HealthPause
from tests.support.frozen_clock import FrozenClock
from tests.support.waiting import wait_until


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


def test_the_delay_is_doubled_up_to_a_minute_until_something_is_handled(clock: FrozenClock) -> None:
    pause = HealthPause(None, 5, clock)

    def length_of_a_pause() -> float:
        pause.begin("db")
        began = clock.monotonic()
        while pause.check():
            clock.advance(1)
        return clock.monotonic() - began

    assert [length_of_a_pause() for _ in range(6)] == [5, 10, 20, 40, 60, 60]
    pause.succeed()
    assert length_of_a_pause() == 5


def test_without_a_health_check_it_begins_at_once(clock: FrozenClock) -> None:
    assert not HealthPause(None, 5, clock).check()


def test_with_one_nothing_is_taken_before_it_has_passed(clock: FrozenClock) -> None:
    healthy: list[bool] = [False]
    pause = HealthPause(lambda: healthy[-1], 5, clock)

    assert pause.check()
    wait_until(lambda: pause.check() and "it says False" in pause.why, 30)
    healthy.append(True)
    assert pause.check()
    clock.advance(5)

    wait_until(lambda: not pause.check(), 30)


def test_one_that_returns_nothing_has_passed(clock: FrozenClock) -> None:
    pause = HealthPause(lambda: None, 5, clock)

    wait_until(lambda: not pause.check(), 30)


def test_one_that_hangs_is_asked_once_and_blocks_nobody(clock: FrozenClock) -> None:
    asked: list[str] = []
    answer = Event()

    def health() -> None:
        asked.append("")
        answer.wait(5)

    pause = HealthPause(health, 5, clock)
    for _ in range(10):
        assert pause.check()
        clock.advance(5)

    assert asked == [""]
    answer.set()
    wait_until(lambda: not pause.check(), 30)
