"""The short form of `python -m tests.endurance.copying`."""

from pathlib import Path

import pytest

from tests.endurance.copying import Plan, endure

pytestmark = [pytest.mark.journey, pytest.mark.postgres, pytest.mark.kills]


def test_a_database_is_copied_there_and_back_through_kills(
    postgres_url: str, tmp_path: Path
) -> None:
    """More than one page of messages, so that each kill leaves some."""
    came = endure(Plan(messages=6000, kills=1, body=100), postgres_url, tmp_path)

    assert came.problems == []
