"""retrier audit verify: whether the lines of an audit are as they were written."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.auditing import filled, walked
from tests.support.command_line import CommandLine


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "audit.jsonl"
    filled(path, 5)
    return path


def verified(cli: CommandLine, *arguments: object) -> tuple[int, Any]:
    result = cli.run("audit", "verify", *map(str, arguments), "--json")
    return result.exit_code, json.loads(result.stdout)


def without_line(path: Path, number: int) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: number - 1] + lines[number:]))


def test_a_whole_chain_is_told_with_its_head(cli: CommandLine, path: Path) -> None:
    code, found = verified(cli, path)

    assert code == 0
    assert found == {
        "ok": True,
        "lines": 5,
        "first": 1,
        "last": 5,
        "head": walked(path).head.sha256,
        "chains": 1,
        "torn": 0,
        "breaks": [],
    }


def test_a_removed_line_is_told_and_the_answer_is_no(cli: CommandLine, path: Path) -> None:
    without_line(path, 3)
    code, found = verified(cli, path)

    assert code == 1
    assert found["breaks"] == [
        {
            "what": "removed",
            "file": str(path),
            "line": 3,
            "words": "line 3 is missing before line 4",
        }
    ]


def test_files_are_put_in_their_order_and_unpacked(cli: CommandLine, path: Path) -> None:
    packed = path.with_name("audit.jsonl.1.gz")
    moved = path.rename(path.with_name("audit.jsonl.1"))
    filled(path, 3)
    packed.write_bytes(gzip.compress(moved.read_bytes()))
    code, found = verified(cli, path, packed)

    assert (code, found["lines"]) == (0, 8)


def test_a_head_that_was_kept_elsewhere_has_to_be_there(cli: CommandLine, path: Path) -> None:
    head = walked(path).head.sha256
    assert verified(cli, path, "--head", head)[0] == 0
    without_line(path, 5)

    code, found = verified(cli, path, "--head", head)
    assert code == 1
    assert found["breaks"][0]["what"] == "head missing"


def test_people_read_a_table_of_the_breaks(cli: CommandLine, path: Path) -> None:
    without_line(path, 3)
    result = cli.run("audit", "verify", str(path))

    assert result.exit_code == 1
    assert "line 3 is missing before line 4" in result.stdout
    assert "the chain is broken: 1 break" in result.stdout


def test_older_lines_that_are_not_there_are_remarked(cli: CommandLine, path: Path) -> None:
    without_line(path, 1)
    result = cli.run("audit", "verify", str(path))

    assert result.exit_code == 0
    assert "Lines before number 2 are not in these files." in result.stderr


@pytest.mark.parametrize("content", [b"", None])
def test_a_file_without_any_line_is_a_mistake(
    cli: CommandLine, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "nothing"
    if content is not None:
        path.write_bytes(content)

    assert cli.run("audit", "verify", str(path)).exit_code == 2
