"""The short forms of the endurance run of workers."""

from collections.abc import Iterable

import pytest

from tests.endurance.workers import LEAST_RATIO, Plan, compare, compare_work, kill

TURNS = 5


def measure_until(turns: Iterable[float], least: float) -> tuple[bool, list[float]]:
    """Return if the median is at least so much, and what was measured: no more than is needed for it."""
    measured: list[float] = []
    for ratio in turns:
        measured.append(ratio)
        if sum(each >= least for each in measured) > TURNS // 2:
            return True, measured
    return False, measured


@pytest.mark.alone
@pytest.mark.rabbitmq
@pytest.mark.parametrize(("prefetch", "messages"), [(1, 1000), (50, 2000)])
def test_a_worker_is_at_least_half_as_fast_as_a_bare_consumer(
    amqp_url: str, prefetch: int, messages: int
) -> None:
    """Empty classic queues in turns: they are the fast ones, where our own work shows most."""
    turns = compare(amqp_url, "classic", messages, prefetch, TURNS)

    is_fast, rates = measure_until(turns, LEAST_RATIO)

    assert is_fast, rates


@pytest.mark.alone
@pytest.mark.rabbitmq
@pytest.mark.parametrize(("prefetch", "least"), [(1, 0.7), (50, 0.7)])
def test_a_worker_needs_hardly_more_work_for_a_message_than_a_consumer_of_pikas(
    amqp_url: str, prefetch: int, least: float
) -> None:
    """What people would write themselves; the goals are 0.8 and 0.85.

    Rates of so few messages differ by half from turn to turn, and medians of the work by a tenth:
    this finds what has become worse, and the long run holds the goals.
    """
    turns = compare_work(amqp_url, "classic", 5000, prefetch, TURNS, rival="pika")

    is_little, work = measure_until(turns, least)

    assert is_little, work


@pytest.mark.rabbitmq
def test_fifty_kills_lose_nothing(amqp_url: str) -> None:
    """Kill fifty workers while they handle messages."""
    killed = kill(Plan(messages=500, kills=50), amqp_url)

    assert (killed.lost, killed.failed, killed.messages) == (0, 0, 500)
