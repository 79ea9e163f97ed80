"""`retrier find`, and --words wherever conditions are options."""

import json
from collections.abc import Iterator

import pytest

from tests.conftest import opened_empty
from tests.support.command_line import CommandLine
from tests.support.factories import failure
from tests.support.fields import declare
from tests.support.words import fill


@pytest.fixture
def cli(request: pytest.FixtureRequest) -> Iterator[CommandLine]:
    """Give the command line of a service that searches full text."""
    with opened_empty("sqlite", request) as db:
        made = CommandLine(db, fields=declare(order="/order"), full_text=True)
        yield made
        made.api.http.close()


@pytest.fixture
def two(cli: CommandLine) -> list[str]:
    ids = cli.api.receive(
        failure(body=b"A-4711 is late", fields={"order": "4711"}),
        failure(body=b"A-4712 is late", fields={"order": "4712"}),
    )
    fill(cli.api.db)
    return ids


def test_words_find_messages(cli: CommandLine, two: list[str]) -> None:
    result = cli.run("find", "A-4711", "late")

    assert result.exit_code == 0
    assert two[0][:8] in result.output
    assert two[1][:8] not in result.output
    assert "1 of 1 message" in result.stderr


def test_a_field_finds_messages(cli: CommandLine, two: list[str]) -> None:
    assert two[1][:8] in cli.run("find", "order=4712").output


def test_an_id_names_what_it_is_of(cli: CommandLine, two: list[str]) -> None:
    assert cli.lines("find", two[0][:8])[-1].split() == ["message", two[0]]


def test_nothing_found_is_told(cli: CommandLine) -> None:
    result = cli.run("find", "nobody")

    assert (result.exit_code, "nothing is found" in result.stderr) == (0, True)


def test_a_name_that_no_field_has_is_told(cli: CommandLine) -> None:
    assert "no field is called nofield" in cli.run("find", "nofield=4711").stderr


def test_json_has_all_of_it(cli: CommandLine, two: list[str]) -> None:
    found = json.loads(cli.run("find", "4711", "--json").output)

    assert [each["conditions"] for each in found["found"]] == [
        {"field.order": "4711"},
        {"words": "4711"},
    ]
    assert [each["id"] for each in found["messages"]["items"]] == [two[0]]


def test_words_are_a_condition(cli: CommandLine, two: list[str]) -> None:
    assert cli.lines("errors", "list", "--words", "4712", "--ids") == [two[1]]


def test_what_is_still_unread_is_told(cli: CommandLine, two: list[str]) -> None:
    cli.api.receive(failure())

    assert "the words of 1 message are still to be read" in cli.run("find", *two).stderr
