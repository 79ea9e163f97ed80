"""How large functions and modules are."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median

from tests.support.project import MODULES, ROOT

LONGEST_FUNCTION = 25
"""Statements, those of blocks inside included."""
MEDIAN_FUNCTION = 6
"""Lines of the body, docstring left out."""
LONGEST_MODULE = 500
MEDIAN_MODULE = 125
"""Fewer modules and larger ones: it was 100 while there were 234."""
MOST_MODULES = 640
"""Without the `__init__` of packages."""

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


def count_lines(function: Function) -> int:
    body = body_of(function)
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def count_module_lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def tell(lines: Iterable[str]) -> None:
    print(*lines, sep="\n")  # noqa: T201 - what pytest -rP is for


def test_no_function_is_long() -> None:
    sizes = {name: count_statements(function) for name, function in walk_functions()}

    longest = sorted(sizes, key=lambda name: sizes[name], reverse=True)[:5]
    tell(f"{sizes[name]:4} statements  {name}" for name in longest)
    assert {name: size for name, size in sizes.items() if size > LONGEST_FUNCTION} == {}


def test_a_function_is_short_as_a_rule() -> None:
    middle = median(count_lines(function) for _, function in walk_functions() if body_of(function))

    tell([f"the median function has {middle} lines"])
    assert middle <= MEDIAN_FUNCTION


def test_no_module_is_long() -> None:
    sizes = {str(path.relative_to(ROOT)): count_module_lines(path) for path in MODULES}

    longest = sorted(sizes, key=lambda name: sizes[name], reverse=True)[:5]
    tell(f"{sizes[name]:4} lines  {name}" for name in longest)
    assert {name: size for name, size in sizes.items() if size > LONGEST_MODULE} == {}


def test_a_module_is_short_as_a_rule() -> None:
    middle = median(count_module_lines(path) for path in MODULES)

    tell([f"the median module has {middle} lines"])
    assert middle <= MEDIAN_MODULE


def test_there_are_not_too_many_modules() -> None:
    modules = [path for path in MODULES if path.name != "__init__.py"]

    tell([f"{len(modules)} modules"])
    assert len(modules) <= MOST_MODULES
