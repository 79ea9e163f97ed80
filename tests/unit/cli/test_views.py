"""`retrier views`, and a list of messages as a view says."""

from tests.support.command_line import CommandLine
from tests.support.factories import failure


def save(cli: CommandLine, page: str = "messages", query: str = "queue=orders") -> None:
    body = {"page": page, "query": query}
    cli.api.http.put("/api/views/night", json=body).raise_for_status()


def test_views_are_listed_with_their_conditions(cli: CommandLine) -> None:
    save(cli)

    result = cli.run("views", "list")

    assert "night" in result.stdout
    assert "queue orders" in result.stdout


def test_none_is_told(cli: CommandLine) -> None:
    assert cli.run("views", "list").stderr == "no view is saved\n"


def test_one_view_is_shown_with_its_address(cli: CommandLine) -> None:
    save(cli)

    assert "/messages?queue=orders" in cli.run("views", "show", "night").stdout


def test_a_view_is_deleted_and_then_is_not_there(cli: CommandLine) -> None:
    save(cli)

    assert cli.run("views", "delete", "night").exit_code == 0
    assert cli.run("views", "delete", "night").exit_code == 1


def test_messages_are_listed_as_a_view_says(cli: CommandLine) -> None:
    ours, _ = cli.api.receive(failure(queue="orders"), failure(queue="stock"))
    save(cli)

    assert cli.run("errors", "list", "--view", "night", "--ids").stdout == f"{ours}\n"


def test_a_view_of_another_list_lists_no_messages(cli: CommandLine) -> None:
    save(cli, "groups", "by=type")

    result = cli.run("errors", "list", "--view", "night")

    assert result.exit_code == 1
    assert "is one of groups, not of messages" in result.stderr
