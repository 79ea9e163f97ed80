"""What lies where in the repository, and what may not be in it."""

import re
from pathlib import Path

import pytest

from tests.conftest import APART
from tests.support.project import ROOT, list_files

TOP_LEVEL = {
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "config.example.yaml",
    "docs",
    "pyproject.toml",
    "retrier",
    "sbom.cdx.json",
    "tests",
}
LONGEST_README = 120
ABSOLUTE_PATH = re.compile(rb"(?<![\w.])/(?:tmp|work|home|root|Users)/\w")


def test_the_top_level_holds_what_it_should() -> None:
    names = {path.parts[0] for path in list_files()}

    assert {name for name in names if not name.startswith(".")} == TOP_LEVEL


def test_the_readme_is_no_manual() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()

    assert len(lines) <= LONGEST_README


def test_no_file_names_a_place_of_one_machine() -> None:
    files = [path for path in list_files() if path.parts[0] != "tests"]

    found = [str(path) for path in files if ABSOLUTE_PATH.search((ROOT / path).read_bytes())]

    assert found == []


@pytest.mark.parametrize("mark", APART)
def test_what_measures_time_says_so_in_its_own_file(mark: str) -> None:
    """`pytest -m alone` imports no other file, nor does `-m waits` (tests/conftest.py)."""
    modules = [path for path in list_files() if path.parts[0] == "tests" and path.suffix == ".py"]
    marking = [path for path in modules if f"mark.{mark}" in (ROOT / path).read_text()]

    itself = {Path(__file__).name, "conftest.py"}
    assert [path for path in marking if path.name[:5] != "test_" and path.name not in itself] == []
    aliases = re.compile(rf"^(?!pytestmark)\w+ = .*mark\.{mark}", re.MULTILINE)
    assert [path for path in marking if aliases.search((ROOT / path).read_text())] == []
