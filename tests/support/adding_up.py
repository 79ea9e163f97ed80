"""`retrier verify`, as a user runs it: at the end of every journey everything has to add up."""

from pathlib import Path

from tests.support.commands import invoke


def assert_all_adds_up(config: Path) -> None:
    """Run the command on this configuration; it must find nothing off."""
    result = invoke(["verify", "--config", str(config)])
    assert result.exit_code == 0, result.output
