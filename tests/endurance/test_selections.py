"""The command `python -m tests.endurance.selections`, in short."""

import pytest

from tests.endurance.selections import main


@pytest.mark.kills
def test_the_long_form_finds_nothing() -> None:
    """All faces are asked about each condition."""
    assert main(["--conditions", "6", "--messages", "40"]) == 0
