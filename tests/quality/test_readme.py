"""The README's commands are the ones that are really run."""

from tests.support.project import ROOT

TEST_COMMAND = "python3 -m venv .venv && .venv/bin/pip install -q -e '.[test]' && .venv/bin/pytest"


def test_ci_runs_the_test_command_of_the_readme() -> None:
    assert TEST_COMMAND in (ROOT / "README.md").read_text().splitlines()
    assert TEST_COMMAND in (ROOT / ".ci" / "run").read_text().splitlines()
