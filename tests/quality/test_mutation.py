"""What mutation testing names is there: it takes too long to run it with everything else."""

import ast
from pathlib import Path

from tests.mutation.__main__ import without_decorators
from tests.mutation.nouns import NOUNS
from tests.support.project import ROOT

DEFINED = ast.FunctionDef | ast.ClassDef


def names_in(module: Path) -> set[str]:
    return {each.name for each in ast.parse(module.read_text()).body if isinstance(each, DEFINED)}


def test_the_nouns_name_files_that_exist() -> None:
    named = [path for noun in NOUNS.values() for path in (*noun.modules, *noun.tests)]

    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_nouns_name_functions_that_exist() -> None:
    modules = [each for noun in NOUNS.values() for each in noun.modules.items()]

    missing = {module: {*names} - names_in(ROOT / module) for module, names in modules if names}
    assert {module: names for module, names in missing.items() if names} == {}


def test_each_noun_has_its_score_in_the_proofs() -> None:
    rows = (ROOT / "docs" / "proofs.md").read_text().splitlines()

    assert [noun for noun in NOUNS if not any(row.startswith(f"| {noun} |") for row in rows)] == []


def test_what_is_decorated_is_mutated_too() -> None:
    source = "class A:\n    @property\n    def b(self):\n        return 1\n\n    c = 2\n"

    assert without_decorators(source) == (
        "class A:\n    def b(self):\n        return 1\n    b = property(b)\n\n    c = 2\n"
    )
