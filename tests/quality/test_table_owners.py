"""Who writes which table: one module of retrier/store for each, and nobody else."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from retrier.store.schema import metadata
from tests.support.project import MODULES, ROOT

STORE = ROOT / "retrier" / "store"
WRITES = {"insert", "update", "delete", "add_rows", "add_new", "add_missing", "insert_columns"}
"""Calls, of functions or methods, by which rows are written: a table is among their arguments."""
NUMBERS = Path("retrier/store/engine/sqlite_dialect.py")
"""SQLite has no sequences: its dialect counts in a table of its own."""


def writes_of(path: Path) -> set[str]:
    """Return the tables that a module writes."""
    return {table for call in calls_of(path) for table in tables_of(call)}


def calls_of(path: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and name_of(node.func) in WRITES:
            yield node


def tables_of(call: ast.Call) -> set[str]:
    """Return the tables that are arguments of the call, or what its method is called on."""
    named = [*call.args, *([call.func.value] if isinstance(call.func, ast.Attribute) else [])]
    return {name for name in map(name_of, named) if name in metadata.tables}


def name_of(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


@cache
def owners_of_tables() -> Mapping[str, list[str]]:
    """Return by table the modules that write it, as paths from the top; the code is read once."""
    owners: dict[str, list[str]] = {name: [] for name in metadata.tables}
    for path in MODULES:
        for table in writes_of(path):
            owners[table].append(str(path.relative_to(ROOT)))
    return owners


def test_a_table_is_written_in_one_module() -> None:
    owners = owners_of_tables()

    assert {name: found for name, found in owners.items() if len(found) != 1} == {}


def test_only_a_module_of_the_store_writes_a_table() -> None:
    owners = {Path(path) for found in owners_of_tables().values() for path in found}

    assert {path for path in owners if (ROOT / path).parent != STORE} == {NUMBERS}
