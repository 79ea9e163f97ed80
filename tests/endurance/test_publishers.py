"""The short form of the endurance run of what publishes for tasks."""

from pathlib import Path

import pytest

from tests.endurance.publishers import run


@pytest.mark.faults
@pytest.mark.rabbitmq
def test_what_is_told_of_tasks_arrives_through_a_close_a_restart_and_an_absence(
    tmp_path: Path,
) -> None:
    """Run Celery and Dramatiq beside a node of their own, with each fault once."""
    arrived = run(3, 5, 10, tmp_path)

    missing = {each.kind: each.failures_missing + each.confirmations_missing for each in arrived}
    assert set(missing.values()) == {0}, arrived
