"""--field: conditions on declared fields, wherever conditions are options."""

from collections.abc import Iterator

import httpx
import pytest

from tests.conftest import opened_empty
from tests.support.command_line import CommandLine
from tests.support.factories import failure
from tests.support.fields import declare


@pytest.fixture
def cli(request: pytest.FixtureRequest) -> Iterator[CommandLine]:
    """Give the command line of a service that declares fields."""
    with opened_empty("sqlite", request) as db:
        made = CommandLine(db, fields=declare(order="/order", total="/total"))
        yield made
        made.api.http.close()


@pytest.fixture
def two(cli: CommandLine) -> list[str]:
    return cli.api.receive(
        failure(fields={"order": "4711", "total": "5"}),
        failure(fields={"order": "4712", "total": "50"}),
    )


def test_messages_are_listed_by_a_value(cli: CommandLine, two: list[str]) -> None:
    assert cli.lines("errors", "list", "--field", "order=4711", "--ids") == [two[0]]


def test_messages_are_listed_by_a_range(cli: CommandLine, two: list[str]) -> None:
    assert cli.lines("errors", "list", "--field", "total=10..", "--ids") == [two[1]]


def test_two_fields_have_to_match_both(cli: CommandLine, two: list[str]) -> None:
    found = cli.lines("errors", "list", "--field", "order=4711", "--field", "total=5", "--ids")

    assert found == [two[0]]


def test_a_retry_is_of_the_messages_with_a_value(cli: CommandLine, two: list[str]) -> None:
    assert cli.run("retry", "--field", "order=4711").exit_code == 0

    (operation,) = cli.asked()
    assert (operation["selection"], operation["total"]) == ({"field.order": "4711"}, 1)
    assert operation["originator"] == "retry of field.order (its value is not told here)"
    assert len(two) == 2


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize(
    ("act", "shown"), [("retry", "operations"), ("archive", "archive-operations")]
)
def test_an_operation_is_shown_with_the_value(cli: CommandLine, act: str, shown: str) -> None:
    assert cli.run(act, "--field", "order=4711").exit_code == 0
    (operation,) = cli.api.get(shown.replace("-", "_"))

    assert "field.order 4711" in " ".join(cli.run(shown, "show", operation["id"]).stdout.split())


@pytest.mark.usefixtures("two")
def test_a_dry_run_says_what_is_meant(cli: CommandLine) -> None:
    result = cli.run("retry", "--field", "total=1..10", "--dry-run")

    assert "field.total 1..10" in result.output


def test_an_unknown_field_is_refused_by_the_service(cli: CommandLine) -> None:
    result = cli.run("errors", "list", "--field", "oder=1")

    assert result.exit_code == 2
    assert "Declared in search.fields: order, total." in result.stderr


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["order"], "NAME=VALUE"),
        (["=1"], "NAME=VALUE"),
        (["Order=1"], "lower-case letter"),
        (["order="], "has a value"),
        (["total=20..10"], "lies before its beginning"),
        (["order=1", "order=2"], "takes one value"),
    ],
)
def test_what_cannot_be_meant_asks_nothing(cli: CommandLine, values: list[str], words: str) -> None:
    options = [each for value in values for each in ("--field", value)]

    result = cli.run("retry", *options)

    assert (result.exit_code, cli.requests) == (2, [])
    assert words in " ".join(result.stderr.split())


def test_a_message_shows_its_values(cli: CommandLine, two: list[str]) -> None:
    lines = cli.lines("errors", "show", two[0])

    assert [line.split() for line in lines if line.startswith("field.")] == [
        ["field.order", "4711"],
        ["field.total", "5"],
    ]


def test_a_view_with_columns_is_a_list_of_conditions(cli: CommandLine, two: list[str]) -> None:
    query = "field.order=4711&columns=order"
    cli.api.http.put("/api/views/night", json={"page": "messages", "query": query})

    assert cli.lines("errors", "list", "--view", "night", "--ids") == [two[0]]


def test_what_is_stored_is_read_anew_to_its_end(cli: CommandLine) -> None:
    cli.api.receive(failure(body=b'{"order": 1}'), failure(body=b'{"order": 2, "total": 3}'))

    assert cli.lines("search", "reindex") == ["2 messages read, 3 values found"]
    assert len(cli.requests) == 2
    assert len(cli.lines("errors", "list", "--field", "order=2", "--ids")) == 1


def test_an_interrupted_reading_says_where_it_goes_on(cli: CommandLine) -> None:
    pages = iter([{"read": 1000, "values": 7, "passed_over": 0, "after": 1234}])

    def answer(_: httpx.Request) -> httpx.Response:
        page = next(pages, None)
        if page is None:
            return httpx.Response(503, json={"title": "away"})
        return httpx.Response(200, json=page, headers={"X-Particular-Version": "1"})

    cli.answer = answer

    result = cli.run("search", "reindex")

    assert result.exit_code != 0
    assert "to go on here: retrier search reindex --after 1234" in result.stderr


def test_reading_goes_on_behind_a_number(cli: CommandLine) -> None:
    cli.api.receive(failure(), failure(body=b'{"order": 2}'))

    assert cli.lines("search", "reindex", "--after", "1") == ["1 message read, 1 value found"]


class TestGroupsByAField:
    @pytest.mark.usefixtures("two")
    def test_are_values_with_their_unresolved_messages_the_most_first(
        self, cli: CommandLine
    ) -> None:
        cli.api.receive(failure(fields={"order": "4712"}))

        result = cli.run("groups", "--field", "order")

        lines = [line.split() for line in result.stdout.splitlines()]
        assert lines[1:] == [["2", "4712"], ["1", "4711"]]
        assert "2 of 2 values, of 3 messages" in result.stderr

    def test_say_that_no_message_has_the_field(self, cli: CommandLine) -> None:
        result = cli.run("groups", "--field", "order")

        assert (result.stdout, result.exit_code) == ("", 0)
        assert "no unresolved message has the field order" in result.stderr

    def test_of_an_unknown_field_name_those_that_are_known(self, cli: CommandLine) -> None:
        result = cli.run("groups", "--field", "colour")

        assert result.exit_code == 1
        assert "Declared in search.fields: order, total." in result.stderr

    def test_go_with_no_other_option(self, cli: CommandLine) -> None:
        for more in (["--text", "x"], ["--limit", "3"]):
            assert cli.run("groups", "--field", "order", *more).exit_code == 2
