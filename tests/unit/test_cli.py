"""The command line: what it prints where, and its exit codes."""

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from retrier import __version__
from retrier.cli import app, with_exit_code
from retrier.errors import (
    BrokerUnavailable,
    ConfigurationError,
    DatabaseUnavailable,
    LeaseLost,
    RetrierError,
    StagingQueueUnusable,
)

COMMANDS = (["run"], ["check"], ["verify"], ["db", "upgrade"])


@pytest.fixture
def wrong_file(tmp_path: Path) -> Path:
    path = tmp_path / "retrier.yaml"
    path.write_text("retries: {forwarding_window: 0}\napi: {host: '[red]all[/red]'}\n")
    return path


@pytest.mark.parametrize("command", COMMANDS)
def test_wrong_settings_end_with_2(wrong_file: Path, command: list[str]) -> None:
    result = CliRunner().invoke(app, [*command, "--config", str(wrong_file)])

    assert result.exit_code == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_all_problems_go_to_standard_error(wrong_file: Path, command: list[str]) -> None:
    result = CliRunner().invoke(app, [*command, "--config", str(wrong_file)])

    keys = [line.partition(":")[0] for line in result.stderr.splitlines()]
    assert keys == ["retries.forwarding_window", "api.host"]


@pytest.mark.parametrize("command", COMMANDS)
def test_wrong_settings_leave_standard_output_empty(wrong_file: Path, command: list[str]) -> None:
    result = CliRunner().invoke(app, [*command, "--config", str(wrong_file)])

    assert result.stdout == ""


def test_what_users_wrote_is_no_markup(wrong_file: Path) -> None:
    result = CliRunner().invoke(app, ["check", "--config", str(wrong_file)])

    assert "is [red]all[/red]" in result.stderr


def test_the_environment_is_read() -> None:
    result = CliRunner().invoke(app, ["check"], env={"RETRIER_API__PORT": "x"})

    assert result.stderr == "api.port: must be a whole number, is x (from RETRIER_API__PORT)\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["bogus"],
        ["run", "--role", "bogus"],
        ["check", "--bogus"],
        ["check", "bogus"],
        ["db", "bogus"],
    ],
)
def test_wrong_usage_ends_with_2(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, arguments).exit_code == 2


def test_the_version_is_shown() -> None:
    result = CliRunner().invoke(app, ["--version"])

    assert (result.exit_code, result.stdout) == (0, f"retrier {__version__}\n")


def test_without_arguments_help_is_shown() -> None:
    result = CliRunner().invoke(app, [])

    assert "Usage: " in result.output


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError(["api.port: is wrong"]), 2),
        (BrokerUnavailable("127.0.0.1:5672: refused"), 3),
        (DatabaseUnavailable("127.0.0.1:5432: refused"), 3),
        (StagingQueueUnusable("retrier.staging"), 1),
        (LeaseLost("another one"), 1),
    ],
)
def test_each_error_has_its_exit_code(error: RetrierError, code: int) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(typer.Exit) as ended:
        with_exit_code(fail)()

    assert ended.value.exit_code == code


def test_the_module_runs_as_the_command_does(wrong_file: Path) -> None:
    command = [sys.executable, "-m", "retrier", "check", "--config", str(wrong_file)]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 2)
