"""The commands that the demo prints work where they are typed."""

from pathlib import Path

from retrier.demo.demo import find_command


def test_a_command_that_no_shell_finds_is_named_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "retrier").touch()

    command = find_command(str(tmp_path / "bin" / "python3"), path="")

    assert command == str(tmp_path / "bin" / "retrier")


def test_without_a_script_python_runs_it(tmp_path: Path) -> None:
    python = tmp_path / "my python"

    assert find_command(str(python), path="") == f"'{python}' -m retrier"


def test_a_command_that_a_shell_finds_is_named_as_it_is(tmp_path: Path) -> None:
    script = tmp_path / "retrier"
    script.touch(mode=0o755)

    assert find_command("python3", path=str(tmp_path)) == "retrier"
