"""Every kind of an entry of the event log is documented."""

import ast
import re
from collections.abc import Iterator

from tests.support.project import MODULES, ROOT

PAGE = (ROOT / "docs" / "database.md").read_text()
ROW = re.compile(r"^\| (`[a-z_`, ]+`) \|", re.MULTILINE)


def kinds() -> Iterator[str]:
    """Walk the kinds that are written out where an entry is made."""
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Name(id="Entry"), keywords=keywords):
                    values = [each.value for each in keywords if each.arg == "kind"]
                    yield from (each.value for each in values if isinstance(each, ast.Constant))
                case _:
                    pass


def test_every_kind_has_a_row() -> None:
    documented = {name for cell in ROW.findall(PAGE) for name in re.findall(r"[a-z_]+", cell)}

    found = set(kinds())
    assert "retry_asked" in found
    assert found - documented == set()
