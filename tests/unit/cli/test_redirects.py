"""retrier redirects: listed, set, replaced and deleted."""

import json

import pytest

from tests.support.command_line import CommandLine
from tests.support.factories import ERROR_QUEUE


def listed(cli: CommandLine) -> dict[str, str]:
    items = json.loads(cli.run("redirects", "list", "--json").stdout)["items"]
    return {each["from_physical_address"]: each["to_physical_address"] for each in items}


def test_one_that_is_set_is_listed(cli: CommandLine) -> None:
    assert cli.lines("redirects", "set", "orders", "orders.new") == [
        "retries for orders go to orders.new"
    ]

    assert listed(cli) == {"orders": "orders.new"}
    assert "orders.new" in cli.run("redirects", "list").stdout


def test_another_one_from_the_same_queue_is_replaced(cli: CommandLine) -> None:
    cli.run("redirects", "set", "orders", "a")

    assert cli.run("redirects", "set", "orders", "b").exit_code == 0

    assert listed(cli) == {"orders": "b"}


def test_one_is_deleted(cli: CommandLine) -> None:
    cli.run("redirects", "set", "a/b", "other")

    assert cli.run("redirects", "delete", "a/b").exit_code == 0

    assert listed(cli) == {}
    assert "no redirect is set" in cli.run("redirects", "list").stderr


def test_one_that_is_not_there_cannot_be_deleted(cli: CommandLine) -> None:
    result = cli.run("redirects", "delete", "orders")

    assert result.exit_code == 1
    assert "No redirect comes from the queue orders." in result.stderr


def test_who_set_it_is_told(cli: CommandLine) -> None:
    cli.run("redirects", "set", "orders", "other", "--user", "grace")

    (event,) = cli.api.get("eventlogitems")
    assert event["who"] == "grace (testclient)"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["set", "orders", "orders"], 2),
        (["set", "orders", ERROR_QUEUE], 2),
        (["set", "orders", ""], 2),
        (["delete", " "], 2),
    ],
)
def test_what_cannot_be_changes_nothing(cli: CommandLine, arguments: list[str], code: int) -> None:
    assert cli.run("redirects", *arguments).exit_code == code

    assert listed(cli) == {}
