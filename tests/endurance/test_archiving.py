"""The short form of `python -m tests.endurance.archiving`."""

import pytest

from tests.endurance.archiving import Plan, endure

pytestmark = [pytest.mark.journey, pytest.mark.rabbitmq, pytest.mark.postgres, pytest.mark.kills]


def test_a_group_is_archived_through_a_kill_and_beside_a_retry_and_is_taken_back(
    amqp_url: str, postgres_url: str
) -> None:
    """Three times as many as are archived before the kill."""
    came = endure(Plan(count=6000), amqp_url, postgres_url)

    assert came.problems == []
