"""The page about Dramatiq names all there is, and shows what its example does."""

import inspect
import re

import pytest

from retrier.integrations.dramatiq import RetrierMiddleware
from retrier.integrations.handover import Deed
from tests.support.examples import EXAMPLES
from tests.support.project import ROOT

PAGE = (ROOT / "docs" / "dramatiq.md").read_text()
ROWS = re.compile(r"^\| `(\w+)` \| (?:`\w+`|none) \|", re.MULTILINE)
OF_TESTS = {"clock"}
"""Arguments that nobody needs but our tests."""


def test_the_lines_to_add_are_those_of_the_example() -> None:
    lines = (EXAMPLES / "dramatiq_tasks.py").read_text().splitlines()
    shown = PAGE.split("```python\n")[1].split("```")[0]

    assert [line for line in shown.splitlines() if line not in lines] == []


def test_the_table_of_arguments_is_whole() -> None:
    arguments = set(inspect.signature(RetrierMiddleware).parameters) - OF_TESTS

    assert set(ROWS.findall(PAGE)) == arguments


@pytest.mark.parametrize("deed", Deed)
def test_every_deed_is_named(deed: Deed) -> None:
    assert f"| `{deed}` |" in PAGE
