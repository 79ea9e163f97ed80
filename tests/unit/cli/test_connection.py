"""How commands talk to the service: where it is, with which token, and what if it is away."""

import json
import socket
from pathlib import Path

import httpx
import pytest

from tests.support.command_line import NO_ENVIRONMENT, CommandLine
from tests.support.commands import invoke

OURS = {"X-Particular-Version": "6.19.2"}
COMMANDS = (
    ["errors", "list"],
    ["errors", "show", "12345678"],
    ["errors", "body", "12345678"],
    ["groups"],
    ["retry", "--all"],
    ["operations", "list"],
    ["operations", "show", "12345678"],
    ["batches", "list"],
    ["batches", "show", "12345678"],
    ["events"],
    ["events", "--follow"],
    ["errors", "history", "12345678"],
    ["processor"],
    ["ledger"],
)


def problem(status: int) -> httpx.Response:
    document = {"detail": "It may not be.", "advice": "Ask somebody else."}
    return httpx.Response(status, json=document, headers=OURS)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_service_that_is_away_is_one_line_and_3(command: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"

    result = invoke([*command, "--url", url], env=NO_ENVIRONMENT)

    assert (result.exit_code, result.stdout) == (3, "")
    (line,) = result.stderr.splitlines()
    assert url in line
    assert "refused" in line
    assert "retrier run" in line


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_something_else_that_answers_ends_with_3(cli: CommandLine, command: list[str]) -> None:
    cli.answer = lambda _request: httpx.Response(200, html="<h1>It works!</h1>")

    result = cli.run(*command)

    assert (result.exit_code, result.stdout) == (3, "")
    assert "is not Retrier" in result.stderr


@pytest.mark.parametrize("content", ["{}", "null", "no json"])
def test_an_answer_of_the_wrong_shape_ends_with_3(cli: CommandLine, content: str) -> None:
    cli.answer = lambda _request: httpx.Response(200, text=content, headers=OURS)

    assert cli.run("errors", "list").exit_code == 3


@pytest.mark.parametrize(("status", "code"), [(401, 1), (403, 1), (404, 1), (422, 2), (503, 3)])
def test_a_problem_is_told_and_has_its_exit_code(cli: CommandLine, status: int, code: int) -> None:
    cli.answer = lambda _request: problem(status)

    result = cli.run("operations", "list")

    assert (result.exit_code, result.stdout) == (code, "")
    assert "It may not be." in result.stderr


def test_a_gateway_that_finds_no_service_ends_with_3(cli: CommandLine) -> None:
    cli.answer = lambda _request: httpx.Response(502, text="Bad Gateway")

    result = cli.run("operations", "list")

    assert result.exit_code == 3
    assert "502" in result.stderr


@pytest.mark.parametrize(
    "url", ["http://box:8080", "http://box:8080/", "http://box:8080/api", "http://box:8080/api/"]
)
def test_the_service_is_asked_where_the_url_says(cli: CommandLine, url: str) -> None:
    cli.run("batches", "list", "--url", url)
    cli.run("batches", "list", RETRIER_URL=url)

    assert [str(request.url) for request in cli.requests] == ["http://box:8080/api/batches"] * 2


def test_a_service_may_stand_behind_a_path(cli: CommandLine) -> None:
    cli.answer = lambda _request: httpx.Response(200, json=[], headers=OURS)

    cli.run("batches", "list", "--url", "https://box/retrier")

    assert [str(request.url) for request in cli.requests] == ["https://box/retrier/api/batches"]


def test_without_a_url_it_is_the_default_of_the_settings(cli: CommandLine) -> None:
    cli.run("batches", "list")

    assert [str(each.url) for each in cli.requests] == ["http://127.0.0.1:33333/api/batches"]


@pytest.mark.parametrize("url", ["box", "ftp://box", "http://", "http://box:x", "http://box:0"])
def test_a_url_that_is_none_ends_with_2(cli: CommandLine, url: str) -> None:
    result = cli.run("batches", "list", "--url", url)

    assert (result.exit_code, cli.requests) == (2, [])
    assert url in result.stderr


def test_a_password_in_a_url_is_not_shown(cli: CommandLine) -> None:
    cli.answer = lambda _request: httpx.Response(502)

    result = cli.run("batches", "list", "--url", "http://ada:secret@box")

    assert "secret" not in result.output


def test_the_token_comes_from_the_environment(cli: CommandLine) -> None:
    cli.run("batches", "list", RETRIER_TOKEN="abc")

    assert [each.headers["Authorization"] for each in cli.requests] == ["Bearer abc"]


def test_a_token_file_goes_before_the_environment(cli: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("from-the-file\n")

    cli.run("batches", "list", "--token-file", str(file), RETRIER_TOKEN="abc")

    assert [each.headers["Authorization"] for each in cli.requests] == ["Bearer from-the-file"]


def test_without_a_token_none_is_sent(cli: CommandLine) -> None:
    cli.run("batches", "list")

    assert ["Authorization" in each.headers for each in cli.requests] == [False]


@pytest.mark.parametrize("content", [None, b"\xff", b"two\nlines"])
def test_a_token_file_that_holds_none_ends_with_2(
    cli: CommandLine, tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)

    result = cli.run("batches", "list", "--token-file", str(file))

    assert (result.exit_code, cli.requests) == (2, [])
    assert "token" in result.stderr


def test_an_error_leaves_no_half_of_a_json_document(cli: CommandLine) -> None:
    cli.answer = lambda _request: problem(503)

    assert cli.run("errors", "list", "--json").stdout == ""


def test_a_json_document_is_ascii(cli: CommandLine) -> None:
    name = "\u202egnp.\x9b1m\ud800"
    cli.answer = lambda _request: httpx.Response(200, content=json.dumps([name]), headers=OURS)

    result = cli.run("batches", "list", "--json")

    assert result.stdout.isascii()
    assert json.loads(result.stdout)["items"] == [name]
