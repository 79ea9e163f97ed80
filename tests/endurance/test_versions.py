"""The short forms of `python -m tests.endurance.versions`."""

import pytest

from tests.endurance.report import report, tell
from tests.endurance.versions import NoHistory, Outcome, RollOut, endure

pytestmark = [pytest.mark.journey, pytest.mark.rabbitmq, pytest.mark.postgres, pytest.mark.kills]


KILLS = 8


@pytest.mark.parametrize("newer", [False, True], ids=["same revision", "newer revision"])
def test_two_versions_on_one_database_lose_nothing_and_double_what_was_in_doubt(
    amqp_url: str, postgres_url: str, *, newer: bool
) -> None:
    """Kill eight processes, some of each version, while one takes the place of the other."""
    outcome = _endure(RollOut(messages=400, kills=KILLS, newer=newer), amqp_url, postgres_url)

    tell(*report(outcome.account), f"killed {outcome.killed}, told {outcome.told}")
    assert outcome.violations == []
    assert sum(outcome.killed.values()) == KILLS
    assert set(outcome.killed) == {"before", "now"}


def _endure(plan: RollOut, amqp_url: str, postgres_url: str) -> Outcome:
    try:
        return endure(plan, amqp_url, postgres_url)
    except NoHistory as why:
        pytest.skip(f"the version before is not here: {why}")
