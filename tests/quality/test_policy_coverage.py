"""Policies decide about messages without a person, so no line and no branch of them is untested."""

import sys
from pathlib import Path
from subprocess import run

import pytest

from tests.support.project import ROOT

TESTS = "tests/unit/policy"
"""Not the property tests: which branches those reach differs from run to run."""


def test_every_branch_of_the_policies_is_tested(tmp_path: Path) -> None:
    begun = ["--cov=retrier.policy", "--cov-branch", "--cov-report=term-missing:skip-covered"]
    asked = ["-q", "-n0", "-p", "no:cacheprovider", "--cov-fail-under=100", *begun]

    found = run(
        [sys.executable, "-m", "pytest", *asked, TESTS],
        cwd=ROOT,
        env={"COVERAGE_FILE": str(tmp_path / "coverage"), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    if found.returncode:
        pytest.fail(found.stdout, pytrace=False)
