"""retrier breakers: listed, opened and closed by hand."""

import json

import pytest

from tests.support.command_line import CommandLine


def test_there_are_none_at_first(cli: CommandLine) -> None:
    assert "there is no breaker" in cli.run("breakers", "list").stderr


def test_one_is_opened_and_listed(cli: CommandLine) -> None:
    result = cli.run("breakers", "open", "a/b", "--for", "2h", "--why", "it is moved")

    assert result.exit_code == 0
    assert "`a/b` is held by ada (testclient) until" in result.stdout
    assert "nothing was ever sent to a/b" in result.stderr
    (item,) = json.loads(cli.run("breakers", "list", "--json").stdout)["items"]
    assert (item["key"], item["state"]) == ("a/b", "open")
    assert "its messages wait" in cli.run("breakers", "list").stdout


def test_one_is_closed(cli: CommandLine) -> None:
    cli.run("breakers", "open", "orders")

    assert cli.lines("breakers", "close", "orders") == ["orders gets its retries again"]


def test_it_may_stay_closed_for_a_time(cli: CommandLine) -> None:
    result = cli.run("breakers", "close", "orders", "--for", "1h", "--json")

    assert json.loads(result.stdout)["by_hand"]["state"] == "closed"


def test_a_message_and_its_group_say_that_they_wait_for_it(cli: CommandLine) -> None:
    (key,) = cli.bench.fail(queue="orders")
    cli.run("breakers", "open", "orders", "--why", "it is moved")

    shown = cli.lines("errors", "show", key)
    header, group = cli.lines("groups")

    assert any(each.startswith("waits because") and "`orders` is held by" in each for each in shown)
    assert header.endswith("waits because")
    assert "`orders` is held by ada (testclient) until" in group


def test_nothing_is_said_of_waiting_where_nothing_waits(cli: CommandLine) -> None:
    (key,) = cli.bench.fail(queue="orders")

    assert "waits because" not in cli.run("errors", "show", key).stdout
    assert "waits because" not in cli.run("groups").stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["open", "orders", "--for", "8d"], 2),
        (["open", "orders", "--for", "soon"], 2),
        (["open", " "], 2),
    ],
)
def test_what_cannot_be(cli: CommandLine, arguments: list[str], code: int) -> None:
    assert cli.run("breakers", *arguments).exit_code == code
