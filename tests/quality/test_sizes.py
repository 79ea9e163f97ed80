"""How large functions and modules are, and how many modules there are."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.support.project import MODULES, ROOT

LONGEST_FUNCTION = 40
"""Statements, those of blocks inside included."""
LONGEST_MODULE = 800
MOST_MODULES = 401
"""Without the `__init__` of packages. One noun is one file: this number rises with a noun only.

Three are `api/shapes` (0096): what commands read must not load the routes.
"""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def walk_functions() -> Iterator[tuple[str, Function]]:
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, Function):
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node


def body_of(function: Function) -> list[ast.stmt]:
    has_docstring = ast.get_docstring(function, clean=False) is not None
    return function.body[1:] if has_docstring else function.body


def count_statements(function: Function) -> int:
    return sum(isinstance(node, ast.stmt) for each in body_of(function) for node in ast.walk(each))


def count_module_lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def tell(lines: Iterable[str]) -> None:
    print(*lines, sep="\n")  # noqa: T201 - what pytest -rP is for


def test_no_function_is_long() -> None:
    sizes = {name: count_statements(function) for name, function in walk_functions()}

    longest = sorted(sizes, key=lambda name: sizes[name], reverse=True)[:5]
    tell(f"{sizes[name]:4} statements  {name}" for name in longest)
    assert {name: size for name, size in sizes.items() if size > LONGEST_FUNCTION} == {}


def test_no_module_is_long() -> None:
    sizes = {str(path.relative_to(ROOT)): count_module_lines(path) for path in MODULES}

    longest = sorted(sizes, key=lambda name: sizes[name], reverse=True)[:5]
    tell(f"{sizes[name]:4} lines  {name}" for name in longest)
    assert {name: size for name, size in sizes.items() if size > LONGEST_MODULE} == {}


def test_there_are_not_too_many_modules() -> None:
    modules = [path for path in MODULES if path.name != "__init__.py"]

    tell([f"{len(modules)} modules"])
    assert len(modules) <= MOST_MODULES
