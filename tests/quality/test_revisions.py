"""Revisions of the schema: what one has made it makes for ever."""

import ast
from pathlib import Path

from retrier.store.revisions import MIGRATIONS


def imports_of(path: Path) -> set[str]:
    """Return the names of the packages that a file imports from."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
        elif isinstance(node, ast.Import):
            found |= {each.name.split(".")[0] for each in node.names}
    return found


def test_no_revision_imports_what_may_change_later() -> None:
    revisions = sorted((MIGRATIONS / "versions").glob("*.py"))

    assert revisions != []
    assert [each.name for each in revisions if "retrier" in imports_of(each)] == []
