"""Whoever takes a line out of an audit, changes one or moves one is found out."""

import json
from pathlib import Path

import pytest

from tests.support.auditing import filled, found_in, walked

LINES = 7


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "audit.jsonl"
    filled(path, LINES)
    return path


def rewrite(path: Path, *order: int) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[number - 1] for number in order))


def test_a_chain_that_nobody_touched_is_whole(path: Path) -> None:
    walk = walked(path)

    assert (walk.lines, walk.begins, walk.head.number, walk.breaks) == (LINES, 1, LINES, [])


@pytest.mark.parametrize("removed", range(2, LINES))
def test_a_line_that_is_removed_is_found(path: Path, removed: int) -> None:
    rewrite(path, *(each for each in range(1, LINES + 1) if each != removed))

    assert found_in(walked(path)) == [("removed", removed)]


def test_several_removed_lines_are_named(path: Path) -> None:
    rewrite(path, 1, 2, 6, 7)

    (found,) = walked(path).breaks
    assert found.words == "lines 3 to 5 are missing before line 6"


@pytest.mark.parametrize("changed", range(1, LINES))
def test_a_line_that_is_changed_is_found_by_the_next(path: Path, changed: int) -> None:
    lines = path.read_text().splitlines()
    told = json.loads(lines[changed - 1])
    told["event"]["reason"] = "nothing of importance"
    lines[changed - 1] = json.dumps(told)
    path.write_text("\n".join(lines) + "\n")

    assert found_in(walked(path)) == [("changed", changed + 1)]


def test_one_changed_byte_is_found(path: Path) -> None:
    content = path.read_bytes().replace(b"act_1", b"act_9")
    path.write_bytes(content)

    assert found_in(walked(path)) == [("changed", 4)]


def test_a_line_that_was_moved_is_found_where_it_is_missing_and_where_it_stands(path: Path) -> None:
    rewrite(path, 1, 2, 4, 5, 3, 6, 7)

    assert found_in(walked(path)) == [("moved", 3), ("moved", 5)]


def test_a_line_that_stands_twice_is_found(path: Path) -> None:
    rewrite(path, 1, 2, 3, 3, 4, 5, 6, 7)

    assert found_in(walked(path)) == [("moved", 4)]


def test_what_is_no_line_is_found(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], b"hello\n", *lines[3:]]))

    assert found_in(walked(path)) == [("torn", 5)]


def test_a_last_line_that_is_not_whole_is_found(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])

    assert found_in(walked(path)) == [("torn", LINES)]


def test_lines_that_are_cut_off_at_the_end_are_found_by_a_head_that_was_kept(path: Path) -> None:
    head = walked(path).head.sha256
    rewrite(path, 1, 2, 3, 4)

    assert found_in(walked(path)) == []
    assert found_in(walked(path, wanted=head)) == [("head missing", 4)]


def test_the_head_of_an_earlier_time_is_found_among_the_lines(path: Path) -> None:
    whole = path.read_bytes()
    rewrite(path, 1, 2, 3, 4)
    head = walked(path).head.sha256
    path.write_bytes(whole)

    assert found_in(walked(path, wanted=head)) == []


def test_a_chain_that_begins_anew_is_a_break(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "audit.jsonl"
    other.parent.mkdir()
    filled(other, 3)
    path.write_bytes(path.read_bytes() + other.read_bytes())

    assert found_in(walked(path)) == [("begun anew", LINES + 1)]


def test_a_chain_on_standard_output_may_begin_anew(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "audit.jsonl"
    other.parent.mkdir()
    filled(other, 3)
    path.write_bytes(path.read_bytes() + other.read_bytes())

    walk = walked(path, restarts=True)
    assert (walk.chains, walk.lines, walk.breaks) == (2, LINES + 3, [])
