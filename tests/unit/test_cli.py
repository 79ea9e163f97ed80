"""The command line: what it prints where, and its exit codes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from retrier import __version__
from retrier.cli.command import with_exit_code
from retrier.errors import (
    BrokerUnavailable,
    ConfigurationError,
    DatabaseUnavailable,
    LeaseLost,
    RetrierError,
    StagingQueueUnusable,
)
from tests.support.commands import invoke

COMMANDS = (["run"], ["check"], ["verify"], ["db", "upgrade"])


@pytest.fixture
def wrong_file(tmp_path: Path) -> Path:
    path = tmp_path / "retrier.yaml"
    path.write_text("retries: {forwarding_window: 0}\napi: {host: '[red]all[/red]'}\n")
    return path


@pytest.mark.parametrize("command", COMMANDS)
def test_wrong_settings_end_with_2(wrong_file: Path, command: list[str]) -> None:
    result = invoke([*command, "--config", str(wrong_file)])

    assert result.exit_code == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_all_problems_go_to_standard_error(wrong_file: Path, command: list[str]) -> None:
    result = invoke([*command, "--config", str(wrong_file)])

    keys = [line.partition(":")[0] for line in result.stderr.splitlines()]
    assert keys == ["retries.forwarding_window", "api.host"]


@pytest.mark.parametrize("command", COMMANDS)
def test_wrong_settings_leave_standard_output_empty(wrong_file: Path, command: list[str]) -> None:
    result = invoke([*command, "--config", str(wrong_file)])

    assert result.stdout == ""


def test_what_users_wrote_is_no_markup(wrong_file: Path) -> None:
    result = invoke(["check", "--config", str(wrong_file)])

    assert "is [red]all[/red]" in result.stderr


def test_the_environment_is_read() -> None:
    result = invoke(["check"], env={"RETRIER_API__PORT": "x"})

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
    assert invoke(arguments).exit_code == 2


def test_the_version_is_shown() -> None:
    result = invoke(["--version"])

    assert (result.exit_code, result.stdout) == (0, f"retrier {__version__}\n")


def test_without_arguments_help_is_shown() -> None:
    result = invoke([])

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


class TestSettingsThatNameNoDatabase:
    @pytest.fixture
    def bare(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Give a file that leaves the addresses to the environment, in the folder where we are."""
        monkeypatch.chdir(tmp_path)
        path = tmp_path / "retrier.yaml"
        path.write_text("instance: shop\n")
        return path

    def run(self, bare: Path, *command: str, **environ: str) -> tuple[int, str, str]:
        """Run a command in the folder of the file; return exit code, output and remarks."""
        others = {key: None for key in os.environ if key.startswith("RETRIER_")}
        asked = [*command, "--config", str(bare)]
        done = invoke(asked, env={**others, **environ})
        return done.exit_code, done.stdout, done.stderr

    def test_are_remarked_by_check(self, bare: Path) -> None:
        _, _, remarks = self.run(bare, "check")

        file = bare.parent / "retrier-data" / "retrier.db"
        assert f"database: the default, the embedded file {file}: neither {bare} nor" in remarks
        assert "broker: the default, the embedded file" in remarks

    def test_are_remarked_where_there_is_no_file_either(self, bare: Path) -> None:
        others = {key: None for key in os.environ if key.startswith("RETRIER_")}

        remarks = invoke(["check"], env=others).stderr

        file = bare.parent / "retrier-data" / "retrier.db"
        assert f"database: the default, the embedded file {file}: neither --config nor" in remarks
        assert "broker: the default" not in remarks

    def test_make_no_new_database(self, bare: Path) -> None:
        code, _, remarks = self.run(bare, "db", "upgrade")

        assert code == 2
        assert "database.url: must be given" in remarks
        assert [each.name for each in bare.parent.iterdir()] == [bare.name]

    def test_a_variable_with_one_underscore_is_named(self, bare: Path) -> None:
        _, _, remarks = self.run(bare, "check", RETRIER_DATABASE_URL="postgresql://127.0.0.1/shop")

        assert "RETRIER_DATABASE_URL is not read: did you mean RETRIER_DATABASE__URL?" in remarks

    def test_a_variable_of_a_container_platform_is_left_alone(self, bare: Path) -> None:
        _, _, remarks = self.run(bare, "check", RETRIER_API_PORT="tcp://10.0.0.1:33333")

        assert "did you mean" not in remarks

    def test_are_named_by_a_variable_that_others_use(self, bare: Path) -> None:
        _, _, remarks = self.run(bare, "check", DATABASE_URL=f"sqlite:///{bare.parent}/shop.db")

        assert "DATABASE_URL is used for database.url" in remarks
        assert "database: the default" not in remarks

    @pytest.mark.parametrize("command", ["check", "list"])
    def test_a_rule_that_others_name_is_told_with_the_policies(
        self, bare: Path, command: str
    ) -> None:
        code, _, remarks = self.run(bare, "policies", command, RETRY_MAX_ATTEMPTS="4")

        assert (code, remarks) == (0, "RETRY_MAX_ATTEMPTS is used for policies.rules\n")

    def test_are_named_by_the_environment(self, bare: Path) -> None:
        named = {
            "RETRIER_DATABASE__URL": f"sqlite:///{bare.parent}/shop.db",
            "RETRIER_BROKER__URL": f"embedded:///{bare.parent}/broker.db",
        }
        code, _, remarks = self.run(bare, "db", "upgrade", **named)

        assert (code, remarks) == (0, "")
