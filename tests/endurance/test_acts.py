"""The short form of `python -m tests.endurance.acts`."""

import pytest

from tests.endurance.acts import Plan, endure
from tests.endurance.sites import RABBITMQ_SITE

pytestmark = [pytest.mark.journey, pytest.mark.rabbitmq, pytest.mark.postgres, pytest.mark.kills]


def test_what_people_take_out_while_it_comes_due_is_not_sent_any_more() -> None:
    """Act as often as there are messages."""
    run = endure(Plan(messages=40, acts=40, site=RABBITMQ_SITE))

    assert run.problems == []
