"""Costly answers are remembered in proportion to their cost."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from retrier.errors import AnswerTooSlow
from retrier.http.cache import ANSWERS, AnswerCache
from tests.support.frozen_clock import FrozenClock


class Counting:
    """Finds 1, then 2, and so on, and takes its time."""

    def __init__(self, clock: FrozenClock, seconds: float) -> None:
        self.clock = clock
        self.seconds = seconds
        self.found = 0

    def __call__(self) -> int:
        self.clock.advance(self.seconds)
        self.found += 1
        return self.found


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def ask(clock: FrozenClock) -> Callable[[Counting], int]:
    remembered = AnswerCache(clock)
    return lambda find: remembered.get("key", find)


def test_what_is_found_quickly_is_found_anew(
    clock: FrozenClock, ask: Callable[[Counting], int]
) -> None:
    find = Counting(clock, seconds=0.1)

    assert [ask(find), ask(find)] == [1, 2]


def test_a_costly_answer_is_remembered_for_ten_times_its_cost(
    clock: FrozenClock, ask: Callable[[Counting], int]
) -> None:
    find = Counting(clock, seconds=2)
    ask(find)

    clock.advance(19)

    assert ask(find) == 1


def test_a_costly_answer_is_found_anew_after_that(
    clock: FrozenClock, ask: Callable[[Counting], int]
) -> None:
    find = Counting(clock, seconds=2)
    ask(find)

    clock.advance(20)

    assert ask(find) == 2


def test_no_answer_is_remembered_for_longer_than_a_minute(
    clock: FrozenClock, ask: Callable[[Counting], int]
) -> None:
    find = Counting(clock, seconds=100)
    ask(find)

    clock.advance(ANSWERS.longest)

    assert ask(find) == 2


def test_an_answer_is_remembered_under_its_own_key(clock: FrozenClock) -> None:
    remembered = AnswerCache(clock)
    find = Counting(clock, seconds=2)

    assert [remembered.get("one", find), remembered.get("other", find)] == [1, 2]


def test_what_could_not_be_found_is_not_remembered(clock: FrozenClock) -> None:
    remembered = AnswerCache(clock)

    def fail() -> int:
        clock.advance(2)
        raise RuntimeError("out of reach")

    with pytest.raises(RuntimeError):
        remembered.get("key", fail)

    assert remembered.get("key", Counting(clock, seconds=2)) == 1


def test_who_waits_in_vain_for_another_to_find_it_does_not_wait_in_turn(clock: FrozenClock) -> None:
    remembered = AnswerCache(clock, timeout=0.01)

    def ask_meanwhile() -> int:
        with ThreadPoolExecutor() as other:
            return other.submit(remembered.get, "key", lambda: 2).result()

    with pytest.raises(AnswerTooSlow):
        remembered.get("key", ask_meanwhile)
