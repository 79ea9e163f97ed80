"""The short form of `python -m tests.endurance.policies`."""

import pytest

from tests.endurance.policies import Plan, endure

pytestmark = [pytest.mark.journey, pytest.mark.rabbitmq, pytest.mark.postgres, pytest.mark.kills]


def test_messages_that_always_fail_are_retried_so_often_whatever_dies(
    amqp_url: str, postgres_url: str
) -> None:
    """One instance is killed after another, two run at a time."""
    run = endure(Plan(messages=100, kills=2, instances=2), amqp_url, postgres_url)

    assert (run.grounds.kills, run.grounds.problems) == (2, [])
