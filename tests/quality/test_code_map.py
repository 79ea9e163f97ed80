"""The code map names what is there, and says of each package what it imports."""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.support.project import MODULES, ROOT

PAGE = (ROOT / "docs" / "code-map.md").read_text()
STEP = re.compile(r"^\d+\. (?:\*\*\w+\*\*, )?`retrier/[\w/]+\.py`: `", re.MULTILINE)
FILE = re.compile(r"`(retrier/[\w/]+\.py)`: ([^;]*)")
"""A file of a step, and what the step says of it: the functions are what is in backticks there."""
NAME = re.compile(r"`([\w.]+)`")
PATH = re.compile(
    r"`((?:retrier|tests|docs)(?:/[\w.-]+)+/?|config\.example\.yaml|pyproject\.toml)`"
)
SHORT = re.compile(r"`((?:domain|store|api|web|cli)/\w+\.py)`")
ROW = re.compile(r"^\| ((?:`retrier/[\w.]+`(?:, )?)+) \| .+ \| (.+) \|$", re.MULTILINE)
JOURNEYS = {
    "A batch, from request to done",
    "A failure, from queue to list",
    "A request, `GET /api/errors`",
}
WHATEVER_IS_BELOW = "what it builds"


def section(name: str) -> str:
    """Return the text below a heading."""
    return PAGE.partition(f"## {name}\n")[2].split("\n## ")[0]


def steps() -> Iterator[tuple[str, str]]:
    """Walk the files and functions of all journeys."""
    for journey in JOURNEYS:
        for line in section(journey).splitlines():
            for file, said in FILE.findall(line):
                yield from ((file, name) for name in NAME.findall(said))


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
    assert [(file, name) for file, name in steps() if name not in names_in(ROOT / file)] == []


def test_every_path_is_there() -> None:
    short = [f"retrier/{path}" for path in SHORT.findall(PAGE)]
    named = {path for path in (*PATH.findall(PAGE), *short) if "NOUN" not in path}

    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_every_journey_has_steps() -> None:
    assert [name for name in JOURNEYS if len(STEP.findall(section(name))) < 5] == []


def test_every_line_of_a_journey_is_a_step() -> None:
    lines = [line for name in JOURNEYS for line in section(name).splitlines() if line]

    assert [line for line in lines if not STEP.match(line)] == []


def packages() -> dict[str, str]:
    """Return what the table says that each package imports; one row may be of several packages."""
    rows = ROW.findall(section("The packages"))
    return {
        name: imports
        for named, imports in rows
        for name in re.findall(r"`retrier/(\w+?)(?:\.py)?`", named)
    }


@cache
def imports_of_packages() -> Mapping[str, frozenset[str]]:
    """Return what each package, or module beside the packages, imports of the others."""
    found: dict[str, set[str]] = {}
    for path in MODULES:
        parts = path.relative_to(ROOT / "retrier").with_suffix("").parts
        if parts == ("__init__",):
            continue
        here = found.setdefault(parts[0], set())
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.ImportFrom(module="retrier", names=names):
                    here |= {each.name for each in names if each.name != "__version__"}
                case ast.ImportFrom(module=str(module)) if module.startswith("retrier."):
                    here.add(module.split(".")[1])
                case ast.Import(names=names):
                    ours = [each.name for each in names if each.name.startswith("retrier.")]
                    here |= {name.split(".")[1] for name in ours}
    return {name: frozenset(imports - {name}) for name, imports in found.items()}


def test_every_package_is_in_the_table() -> None:
    assert set(packages()) == set(imports_of_packages())


def test_the_table_says_what_each_package_imports() -> None:
    said = {
        name: set(NAME.findall(cell))
        for name, cell in packages().items()
        if cell != WHATEVER_IS_BELOW
    }
    found = dict(imports_of_packages())
    found["cli"] |= found.pop("__main__") - {"cli"}  # they share a row
    said.pop("__main__")

    assert said == {name: found[name] for name in said}


def test_a_package_imports_only_what_stands_below_it() -> None:
    order = list(packages())
    order.remove("__main__")
    order.insert(0, "__main__")
    upwards = [
        (name, each)
        for name, imports in imports_of_packages().items()
        for each in imports
        if order.index(each) < order.index(name)
    ]

    assert upwards == []
