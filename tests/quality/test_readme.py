"""The README's commands are the ones that are really run."""

from tests.support.project import ROOT

TEST_COMMAND = (
    "python3 -m venv .venv && .venv/bin/pip install -q -e '.[test]'"
    " && .venv/bin/pytest && .venv/bin/pytest -m waits && .venv/bin/pytest -m alone"
)

DEMO_COMMAND = "python3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/retrier demo"


def test_the_first_command_is_the_demo_and_the_tests_come_second() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    installing = [line for line in lines if line.startswith("python3 -m venv")]

    assert installing == [DEMO_COMMAND, TEST_COMMAND]


def test_ci_runs_the_test_command_of_the_readme() -> None:
    assert TEST_COMMAND in (ROOT / "README.md").read_text().splitlines()
    # Nothing comes after it: the last line that is printed is the summary of the tests.
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == TEST_COMMAND
