"""retrier comment: written, listed with the groups, taken away."""

import json

import pytest

from tests.support.command_line import CommandLine
from tests.support.factories import failure


@pytest.fixture
def group_id(cli: CommandLine) -> str:
    """Give the id of a group with one message."""
    cli.api.receive(failure())
    return str(listed(cli)["id"])


def listed(cli: CommandLine) -> dict[str, str]:
    found: list[dict[str, str]] = json.loads(cli.run("groups", "--json").stdout)["items"]
    return found[0]


def test_one_is_listed_with_who_wrote_it(cli: CommandLine, group_id: str) -> None:
    told = cli.lines("comment", group_id[:8], "ask the warehouse", "--user", "ada")

    assert told == [f"comment kept: group {group_id[:8]}"]
    assert listed(cli)["comment"] == "ask the warehouse"
    table = cli.run("groups").stdout
    assert "ask the warehouse" in table
    assert "ada" in table


def test_without_one_there_is_no_table_of_comments(cli: CommandLine, group_id: str) -> None:
    assert group_id[:8] in cli.run("groups").stdout
    assert "comments" not in cli.run("groups").stdout


def test_one_is_taken_away(cli: CommandLine, group_id: str) -> None:
    cli.run("comment", group_id, "first")

    told = cli.run("comment", group_id, "--delete", "--json")

    assert json.loads(told.stdout) == {"group": group_id, "comment": None}
    assert "comment" not in listed(cli)


@pytest.mark.parametrize("more", [(), ("text", "--delete")])
def test_it_takes_a_text_or_the_option(
    cli: CommandLine, group_id: str, more: tuple[str, ...]
) -> None:
    assert cli.run("comment", group_id, *more).exit_code == 2


def test_what_is_too_long_is_refused_with_the_reason(cli: CommandLine, group_id: str) -> None:
    refused = cli.run("comment", group_id, "x" * 1001)

    assert refused.exit_code == 2
    assert "1,000 characters" in refused.stderr


def test_the_codes_of_a_terminal_are_not_sent_to_it(cli: CommandLine, group_id: str) -> None:
    cli.run("comment", group_id, "\x1b[31mred\nnext line")

    assert "\x1b" not in cli.run("groups").stdout
    assert sum("red" in line for line in cli.run("groups").stdout.splitlines()) == 1
