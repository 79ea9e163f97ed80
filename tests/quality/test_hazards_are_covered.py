"""The table of hazards is whole: every row says how Retrier is protected, and names tests there are."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.project import ROOT
from tests.support.setting_keys import SETTING_KEYS

TESTS = ROOT / "tests"
COLUMNS = ("what can go wrong", "how Retrier is protected", "test")
LATER = re.compile(r"comes with `([\w./]+)`")
NODE = re.compile(r"`([\w/]+\.py(?:::\w+)+)`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One hazard; `tests` holds node ids, or else `later` names what it comes with."""

    hazard: str
    protection: str
    test: str

    @property
    def tests(self) -> list[str]:
        return NODE.findall(self.test)

    @property
    def later(self) -> list[str]:
        return LATER.findall(self.test)


def walk_rows() -> Iterator[Row]:
    for line in (TESTS / "hazards.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and tuple(cells) != COLUMNS and set(line) - set("|-"):
            hazard, protection, test = cells
            yield Row(hazard=hazard, protection=protection, test=test)


ROWS = tuple(walk_rows())


@cache
def names_in(path: Path) -> set[str]:
    """Return the tests of a file as pytest names them: functions, and methods of classes."""
    if not path.exists():
        return set()
    body = ast.parse(path.read_text()).body
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    methods = {f"{node.name}::{each.name}" for node in classes for each in functions(node.body)}
    return methods | {each.name for each in functions(body)}


def functions(body: list[ast.stmt]) -> list[ast.FunctionDef]:
    return [node for node in body if isinstance(node, ast.FunctionDef)]


def exists(node_id: str) -> bool:
    file, _, name = node_id.partition("::")
    is_test = name.rpartition("::")[2].startswith("test_")
    return is_test and name in names_in(TESTS / file)


def is_there(name: str) -> bool:
    """Say whether a setting or a module of this name exists by now."""
    keys = [key for key in SETTING_KEYS if key == name or key.startswith(f"{name}.")]
    return bool(keys) or (ROOT / name).exists() or (ROOT / f"{name}.py").exists()


def test_there_are_hazards() -> None:
    assert len(ROWS) > len(COLUMNS)


def test_no_hazard_has_two_rows() -> None:
    assert len({row.hazard for row in ROWS}) == len(ROWS)


def is_whole(row: Row) -> bool:
    named = "<br>".join([f"`{test}`" for test in row.tests])
    later = "".join(f"comes with `{name}`" for name in row.later)
    return bool(row.hazard and row.protection and row.test) and row.test in {named, later}


def test_a_hazard_says_how_retrier_is_protected_and_by_which_test() -> None:
    assert [row for row in ROWS if not is_whole(row)] == []


def test_a_hazard_names_tests_that_exist() -> None:
    assert [(row.hazard, test) for row in ROWS for test in row.tests if not exists(test)] == []


def test_a_hazard_of_what_is_there_by_now_has_a_test() -> None:
    assert [(row.hazard, name) for row in ROWS for name in row.later if is_there(name)] == []
