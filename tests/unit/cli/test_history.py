"""retrier history and retrier acknowledge: retries that are over, and who has taken note of it."""

import json

import pytest

from tests.support.command_line import CommandLine


@pytest.fixture
def group(cli: CommandLine) -> str:
    """Give the id of a group whose retry is over."""
    cli.bench.fail(2)
    (found,) = cli.api.get("recoverability/groups")
    cli.run("retry", "--group", found["id"], "--watch")
    return str(found["id"])


def unacknowledged(cli: CommandLine) -> list[str]:
    found = json.loads(cli.run("history", "--json").stdout)["unacknowledged_operations"]
    return [each["request_id"] for each in found]


def test_a_retry_that_is_over_is_listed(cli: CommandLine, group: str) -> None:
    lines = cli.lines("history")

    assert "came back" in lines[0]
    assert "not known yet" in lines[1]
    assert "retry of group" in lines[1]
    assert unacknowledged(cli) == [group]


def test_it_is_acknowledged_by_the_beginning_of_the_id(cli: CommandLine, group: str) -> None:
    assert cli.lines("acknowledge", group[:8]) == [f"acknowledged: group {group[:8]}"]

    assert unacknowledged(cli) == []


def test_what_is_acknowledged_already_is_refused(cli: CommandLine, group: str) -> None:
    cli.run("acknowledge", group)

    assert cli.run("acknowledge", group).exit_code == 1


def test_nothing_is_over_at_first(cli: CommandLine) -> None:
    assert "no retry is over yet" in cli.run("history").stderr
