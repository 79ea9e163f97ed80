"""The short form of `python -m tests.endurance.gateway`: the preset with tenths of its seconds."""

from tests.endurance.gateway import Plan, endure
from tests.endurance.sites import EMBEDDED_SITE


def test_retries_of_the_preset_come_in_their_time_and_what_is_refused_never_does() -> None:
    """Only the seconds differ from the preset."""
    run = endure(Plan(messages=10, site=EMBEDDED_SITE, first=0.3, late=20))

    assert run.problems == []
