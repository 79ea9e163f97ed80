"""retrier retry --patch: a file that says what is changed of each message."""

import json
from pathlib import Path
from typing import Any

import pytest

from retrier.domain.patches import PatchRefusal
from tests.support.command_line import CommandLine
from tests.support.factories import failure
from tests.support.patching import BODY, PATCH


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "patch.json"
    found.write_text(json.dumps(PATCH))
    return found


def fail(cli: CommandLine, count: int = 1, body: bytes = BODY) -> list[str]:
    return cli.api.receive(*(failure(body=body, headers={"X-Old": "1"}) for _ in range(count)))


def test_asks_for_a_retry_with_the_patch_of_the_file(cli: CommandLine, file: Path) -> None:
    fail(cli)

    result = cli.run("retry", "--all", "--patch", str(file))

    assert result.exit_code == 0, result.output
    (operation,) = cli.asked()
    assert cli.api.get(f"operations/{operation['id']}")["patch"] == PATCH


def test_a_dry_run_shows_what_the_patch_changes(cli: CommandLine, file: Path) -> None:
    fail(cli, 2)
    fail(cli, body=b"plain")

    result = cli.run("retry", "--all", "--patch", str(file), "--dry-run")

    assert "would change 2 messages" in result.stdout
    assert str(PatchRefusal.NO_JSON) in result.stdout
    assert "+ X-Region: eu" in result.stdout
    assert '+{"order":8,"total":1.10}' in result.stdout
    assert cli.asked() == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is no JSON"),
        ("{}", "says nothing"),
        ('{"body": [{"op": "add", "path": "x", "value": 1}]}', "body.0.path"),
    ],
)
def test_a_wrong_patch_is_refused_before_it_is_asked(
    cli: CommandLine, file: Path, text: str, words: str
) -> None:
    file.write_text(text)

    result = cli.run("retry", "--all", "--patch", str(file))

    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())
    assert cli.asked() == []


def test_a_file_that_is_not_there_is_named(cli: CommandLine, tmp_path: Path) -> None:
    result = cli.run("retry", "--all", "--patch", str(tmp_path / "nothing.json"))

    assert result.exit_code != 0
    assert "--patch" in result.stderr
    assert cli.asked() == []


def test_the_operation_shows_its_patch(cli: CommandLine, file: Path) -> None:
    fail(cli)
    cli.run("retry", "--all", "--patch", str(file))
    (operation,) = cli.asked()

    shown: Any = cli.run("operations", "show", operation["id"]).stdout

    assert "X-Region" in shown
