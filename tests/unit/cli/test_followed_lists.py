"""Lists that are followed with --limit: printed as they come, each item once, in four forms."""

import json
from collections.abc import Callable, Sequence
from io import StringIO

import httpx
import pytest
from rich.console import Console

from retrier.cli.api_client import LARGEST_PAGE, Listing
from retrier.cli.printer import Column, Printer
from retrier.domain.failed_message import FailedMessageStatus
from tests.support.command_line import CommandLine
from tests.support.factories import failed_import, failure

MANY = LARGEST_PAGE + 3
ALL = ("errors", "list", "--limit", "5000")


def fill(cli: CommandLine, count: int = MANY) -> list[str]:
    """Have so many messages fail; return their ids, the newest first."""
    cli.api.receive(*(failure() for _ in range(count)))
    ids: list[str] = cli.api.get("errors/ids", sort="time_of_failure", per_page=count)
    return ids


def between(cli: CommandLine, act: Callable[[], object]) -> None:
    """Do something behind each answer of the service."""

    def answer(request: httpx.Request) -> httpx.Response:
        found: httpx.Response = cli.api.http.get(str(request.url))
        act()
        return found

    cli.answer = answer


def test_what_came_before_the_service_broke_off_is_printed(cli: CommandLine) -> None:
    fill(cli)
    answers = iter(range(2))

    def answer(request: httpx.Request) -> httpx.Response:
        if next(answers):
            raise httpx.ReadError("the service is gone")
        found: httpx.Response = cli.api.http.get(str(request.url))
        return found

    cli.answer = answer
    result = cli.run(*ALL, "--ndjson")

    assert (result.exit_code, len(result.stdout.splitlines())) == (3, LARGEST_PAGE)
    assert "the service is gone" in result.stderr


def test_ids_are_read_without_their_messages(cli: CommandLine) -> None:
    right = fill(cli)

    assert cli.lines(*ALL, "--ids") == right
    assert {each.url.path for each in cli.requests} == {"/api/errors/ids"}


def test_a_document_of_several_pages_is_printed_like_one_of_a_single_page(cli: CommandLine) -> None:
    right = fill(cli)

    printed = cli.run(*ALL, "--json").stdout

    document = json.loads(printed)
    assert (document["total"], [each["id"] for each in document["items"]]) == (MANY, right)
    assert printed == f"{json.dumps(document, indent=2)}\n"


def test_a_document_of_nothing_is_one_too(cli: CommandLine) -> None:
    assert cli.run(*ALL, "--json").stdout == '{\n  "total": 0,\n  "items": []\n}\n'


def test_each_item_is_a_line_of_json_if_asked_for(cli: CommandLine) -> None:
    right = fill(cli)

    lines = cli.lines(*ALL, "--ndjson")

    assert [json.loads(line)["id"] for line in lines] == right
    assert json.loads(lines[0]) == cli.api.get("errors", sort="time_of_failure", per_page=1)[0]


@pytest.mark.parametrize("other", ["--json", "--ids"])
def test_lines_of_json_go_with_no_other_form(cli: CommandLine, other: str) -> None:
    result = cli.run(*ALL, "--ndjson", other)

    assert result.exit_code == 2
    assert "--ndjson goes with neither --json nor --ids" in result.stderr


@pytest.mark.parametrize("terminal", [None, 80, 160])
def test_a_table_of_several_pages_has_one_heading(cli: CommandLine, terminal: int | None) -> None:
    right = fill(cli)
    cli.terminal = terminal

    lines = cli.lines(*ALL)

    headings = [line for line in lines if "status" in line]
    assert (len(headings), len(lines)) == (1, MANY + 1)
    assert right[-1][:8] in lines[-1]


def test_a_column_of_a_table_that_goes_on_gets_wider_and_not_narrower() -> None:
    written = StringIO()
    out = Console(file=written)
    parts = [Listing(total=3, items=(each,)) for each in ("a", "a long one", "b")]
    columns = (Column(title="name"), Column(title="end"))

    def show(printer: Printer, items: Sequence[str]) -> None:
        printer.table(columns, [(each, "x") for each in items])

    Printer(out, out).show_parts(iter(parts), show, "name", "none")

    assert written.getvalue().splitlines() == [
        "name  end",
        "a     x",
        "a long one  x",
        "b           x",
        "3 of 3 names",
    ]


def test_the_table_says_how_many_there_were_when_it_began(cli: CommandLine) -> None:
    fill(cli)
    between(cli, lambda: cli.api.receive(failure()))

    result = cli.run(*ALL)

    assert result.stderr.splitlines()[0] == f"{MANY} of {MANY} messages"


def test_a_message_that_gets_another_place_is_printed_once(cli: CommandLine) -> None:
    right = fill(cli)
    between(cli, lambda: cli.api.set_status(right[-1], FailedMessageStatus.UNRESOLVED))

    lines = cli.lines(*ALL, "--sort", "modified", "--ascending", "--ndjson")

    assert sorted(json.loads(line)["id"] for line in lines) == sorted(right)


def test_imports_that_are_deleted_meanwhile_make_none_be_missed(cli: CommandLine) -> None:
    cli.api.receive(*(failed_import() for _ in range(MANY)))
    everything = {each["id"] for each in cli.api.get("imports", per_page=500)}
    everything |= {each["id"] for each in cli.api.get("imports", per_page=500, page=2)}
    (newest,) = [each["id"] for each in cli.api.get("imports", per_page=1)]
    between(cli, lambda: cli.api.http.delete(f"/api/imports/{newest}"))

    lines = cli.lines("imports", "list", "--ids", "--limit", "5000")

    assert (len(lines), set(lines)) == (MANY, everything)


def test_events_that_come_meanwhile_double_none(cli: CommandLine) -> None:
    (key,) = cli.api.receive(failure())
    for _ in range(LARGEST_PAGE // 2 + 1):
        cli.api.http.post(f"/api/errors/{key}/archive")
        cli.api.http.patch("/api/errors/unarchive", json=[key])
    between(cli, lambda: cli.api.http.post(f"/api/errors/{key}/archive"))

    events = [json.loads(line)["id"] for line in cli.lines("events", "--limit", "5000", "--ndjson")]

    assert len(events) == len(set(events)) > LARGEST_PAGE
