"""The command `python -m tests.endurance.selections`, in short."""

from tests.endurance.selections import main


def test_the_long_form_finds_nothing() -> None:
    """All faces are asked about each condition."""
    assert main(["--conditions", "6", "--messages", "40"]) == 0
