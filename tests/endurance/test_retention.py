"""The short form of `python -m tests.endurance.retention`: a day in half a minute."""

import pytest

from tests.endurance.retention import Plan, endure

pytestmark = [
    pytest.mark.journey,
    pytest.mark.rabbitmq,
    pytest.mark.postgres,
    pytest.mark.kills,
]

KILLS = 2


def test_a_day_with_kills_and_two_instances_leaves_a_ledger_that_adds_up(
    amqp_url: str, postgres_url: str
) -> None:
    """Two thirds of the time are enough to delete what failed first."""
    plan = Plan(seconds=24, kills=KILLS, rate=15)

    day = endure(plan, amqp_url, postgres_url)

    assert (day.grounds.kills, day.grounds.problems) == (KILLS, [])
