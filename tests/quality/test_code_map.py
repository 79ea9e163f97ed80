"""The code map names what is there."""

import ast
import re
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(("file", "name"), STEP.findall(PAGE))
def test_every_step_names_a_function_that_is_there(file: str, name: str) -> None:
    assert name in names_in(ROOT / file)


@pytest.mark.parametrize("path", sorted(set(PATH.findall(PAGE))))
def test_every_path_is_there(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("journey", sorted(JOURNEYS))
def test_every_journey_has_steps(journey: str) -> None:
    section = PAGE.split(f"## {journey}\n")[1].split("\n## ")[0]

    assert len(STEP.findall(section)) >= 5


def test_every_row_of_a_journey_is_a_step() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("|") and ".py` | `" in line]

    assert len(rows) == len(STEP.findall(PAGE))
