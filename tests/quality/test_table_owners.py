"""Who writes which table: one module of retrier/store/tables for each, and nobody else."""

import ast
from collections.abc import Iterator
from pathlib import Path

from retrier.store.schema import metadata
from tests.support.project import MODULES, ROOT

TABLES = ROOT / "retrier" / "store" / "tables"
WRITES = {"insert", "update", "delete", "add_rows", "add_new", "add_missing", "insert_columns"}
"""Calls, of functions or methods, by which rows are written: a table is among their arguments."""
NUMBERED_BY_THE_DIALECT = {"counters"}


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


def test_every_table_has_one_module_that_writes_it() -> None:
    owners: dict[str, list[str]] = {name: [] for name in metadata.tables}
    for path in sorted(TABLES.glob("*.py")):
        for table in writes_of(path):
            owners[table].append(path.name)

    several = {"causes.py"}
    assert {name: found for name, found in owners.items() if len(found) > 1} == {}
    unwritten = {name for name, found in owners.items() if not found}
    assert unwritten == NUMBERED_BY_THE_DIALECT
    per_module = {path.name: writes_of(path) for path in TABLES.glob("*.py")}
    assert {name for name, written in per_module.items() if len(written) > 1} == several


def test_nobody_else_writes_a_table() -> None:
    others = [path for path in MODULES if TABLES not in path.parents]
    writing = {str(path.relative_to(ROOT)): writes_of(path) for path in others}

    written = {name: tables for name, tables in writing.items() if tables}
    assert written == {"retrier/store/engine/sqlite_dialect.py": NUMBERED_BY_THE_DIALECT}
