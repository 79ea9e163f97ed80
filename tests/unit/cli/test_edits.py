"""retrier errors edit: an editor, what differs, a question, and the edit."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.support.factories import failure


@pytest.fixture
def key(cli: CommandLine) -> str:
    return cli.api.receive(failure(body=b'{"order": 7}'))[0]


def writes(before: str, after: str) -> Callable[[str], str]:
    def edit(text: str) -> str:
        assert before in text, text
        return text.replace(before, after) + "\n"

    return edit


def edits(cli: CommandLine, key: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = cli.api.get(f"errors/{key}").get("edits", [])
    return found


def test_sends_what_the_editor_leaves(cli: CommandLine, key: str) -> None:
    cli.editor = writes('"order": 7', '"order": 8')

    result = cli.run("errors", "edit", key[:8], stdin="y\n")

    assert result.exit_code == 0, result.output
    (shown,) = edits(cli, key)
    assert (shown["body_changed"], shown["body_size"]) == (True, 12)


def test_shows_what_differs_before_it_asks(cli: CommandLine, key: str) -> None:
    cli.editor = writes("Shop.Tenant: north", "Shop.Tenant: south")

    result = cli.run("errors", "edit", key, stdin="n\n")

    assert "- Shop.Tenant: north\n+ Shop.Tenant: south" in result.stderr
    assert (result.exit_code, edits(cli, key)) == (1, [])


def test_removes_a_header_whose_line_is_deleted(cli: CommandLine, key: str) -> None:
    cli.editor = writes("Shop.Tenant: north\n", "")

    cli.run("errors", "edit", key, "--yes")

    (shown,) = edits(cli, key)
    assert {"key": "Shop.Tenant", "before": "north"} in shown["headers"]  # type: ignore[operator]


def test_sends_nothing_if_the_editor_changes_nothing(cli: CommandLine, key: str) -> None:
    cli.editor = lambda _text: None

    result = cli.run("errors", "edit", key, "--yes")

    assert (result.exit_code, edits(cli, key)) == (1, [])


def test_a_value_of_several_lines_is_written_as_in_json(cli: CommandLine) -> None:
    (key,) = cli.api.receive(failure(headers={"Shop.Note": 'two\nlines "here"'}))
    cli.editor = writes('Shop.Note: "two\\nlines', 'Shop.Note: "three\\nlines')

    cli.run("errors", "edit", key, "--yes")

    (shown,) = edits(cli, key)
    after = 'three\nlines "here"'
    assert after in [each.get("after") for each in shown["headers"]]  # type: ignore[attr-defined]


def test_sets_headers_without_an_editor(cli: CommandLine, key: str) -> None:
    result = cli.run("errors", "edit", key, "--header", "Shop.Tenant=a=b", "--yes")

    assert result.exit_code == 0, result.output
    assert "+ Shop.Tenant: a=b" in result.stderr


def test_takes_the_body_from_a_file(cli: CommandLine, key: str, tmp_path: Path) -> None:
    file = tmp_path / "order.json"
    file.write_bytes(b'{"order": 99}')

    cli.run("errors", "edit", key, "--body-file", str(file), "--yes")

    (shown,) = edits(cli, key)
    assert shown["body_size"] == 13


def test_says_why_a_broken_body_is_refused(cli: CommandLine, key: str) -> None:
    cli.editor = writes("{", "[")

    result = cli.run("errors", "edit", key, "--yes")

    assert (result.exit_code, "no JSON" in result.stderr) == (2, True)


def test_sends_a_broken_body_if_told_to(cli: CommandLine, key: str) -> None:
    cli.editor = writes("{", "[")

    assert cli.run("errors", "edit", key, "--yes", "--broken").exit_code == 0


def test_says_who_was_faster(cli: CommandLine, key: str) -> None:
    arguments = ("errors", "edit", key, "--header", "Shop.Tenant=south", "--yes")
    cli.run(*arguments, "--user", "bob")

    result = cli.run(*arguments)

    assert (result.exit_code, "edited by bob" in result.stderr) == (1, True)


def test_nobody_to_edit_is_told(cli: CommandLine, key: str) -> None:
    cli.editor = None

    result = cli.run("errors", "edit", key, "--yes")

    assert (result.exit_code, "nobody to edit" in result.stderr) == (1, True)
