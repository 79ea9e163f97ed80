"""The code map names what is there."""

import ast
import re
from functools import cache
from pathlib import Path

from tests.support.project import ROOT

PAGE = (ROOT / "docs" / "code-map.md").read_text()
STEP = re.compile(r"^\| .+ \| `(retrier/[\w/]+\.py)` \| `([\w.]+)` \|$", re.MULTILINE)
PATH = re.compile(
    r"`((?:retrier|tests|docs)(?:/[\w.-]+)+/?|config\.example\.yaml|pyproject\.toml)`"
)
JOURNEYS = {
    "A failure comes in",
    "A retry is asked for",
    "A batch goes through",
    "A request is answered",
}


@cache
def names_in(path: Path) -> set[str]:
    """Return the functions of a module, and the methods of its classes, each with its class."""
    tree = ast.parse(path.read_text())
    functions = {
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    methods = {
        f"{owner.name}.{node.name}"
        for owner in tree.body
        if isinstance(owner, ast.ClassDef)
        for node in owner.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    return functions | methods


def test_every_step_names_a_function_that_is_there() -> None:
    steps = STEP.findall(PAGE)

    assert [(file, name) for file, name in steps if name not in names_in(ROOT / file)] == []


def test_every_path_is_there() -> None:
    assert [path for path in sorted(set(PATH.findall(PAGE))) if not (ROOT / path).exists()] == []


def test_every_journey_has_steps() -> None:
    sections = {name: PAGE.partition(f"## {name}\n")[2].split("\n## ")[0] for name in JOURNEYS}

    assert [name for name, text in sections.items() if len(STEP.findall(text)) < 5] == []


def test_every_row_of_a_journey_is_a_step() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("|") and ".py` | `" in line]

    assert len(rows) == len(STEP.findall(PAGE))
