"""retrier verify: what it prints, and its exit codes; nothing of it needs a service."""

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import delete
from typer.testing import Result

from retrier.store.schema import ledger
from tests.support.command_line import CommandLine
from tests.support.commands import invoke

Verify = Callable[..., Result]


@pytest.fixture
def no_broker() -> str:
    """Give the URL of a broker that does not listen."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"amqp://guest:guest@127.0.0.1:{listener.getsockname()[1]}//"


@pytest.fixture
def verify(cli: CommandLine, no_broker: str, tmp_path: Path) -> Verify:
    """Give the command, on the database of the command line."""
    config = tmp_path / "retrier.yaml"
    config.write_text(
        f"broker: {{url: '{no_broker}'}}\ndatabase: {{url: 'sqlite:///{cli.api.db.place}'}}\n"
    )

    def run(*arguments: str) -> Result:
        return invoke(["verify", "--config", str(config), *arguments])

    return run


def bend(cli: CommandLine) -> None:
    with cli.api.db.engine.begin() as conn:
        conn.execute(delete(ledger))


def test_every_rule_has_a_line(verify: Verify) -> None:
    lines = verify().stdout.splitlines()

    assert lines[0].split() == ["result", "rule"]
    assert {line.split()[0] for line in lines[1:-1]} == {"ok"}
    assert lines[-1].startswith("everything adds up in the database")


def test_a_broker_that_is_away_ends_with_3(verify: Verify) -> None:
    result = verify()

    assert result.exit_code == 3
    assert "staging queue not looked at" in result.stderr
    assert "refused" in result.stderr


def test_what_is_off_is_listed_and_ends_with_1(cli: CommandLine, verify: Verify) -> None:
    cli.bench.fail(3)
    bend(cli)

    result = verify()

    assert result.exit_code == 1
    rule = "the ledger has as many new messages as there are failed messages"
    assert f"off     {rule}" in result.stdout.splitlines()
    assert f"off by 3: {rule}:" in result.stdout.splitlines()


def test_all_of_it_is_one_json_document(cli: CommandLine, verify: Verify) -> None:
    cli.bench.fail(3)
    bend(cli)

    document = json.loads(verify("--json").stdout)

    assert document["ok"] is False
    assert [rule["broken"] for rule in document["rules"] if rule["broken"]] == [3]
    assert document["database"] == cli.api.db.place
    assert "refused" in document["broker_problem"]


def test_a_database_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    file = tmp_path / "none.db"

    result = invoke(["verify"], env={"RETRIER_DATABASE__URL": f"sqlite:///{file}"})

    assert (result.exit_code, result.stdout) == (3, "")
    assert "there is no database" in result.stderr
    assert not file.exists()


def test_a_database_of_another_version_ends_with_3(tmp_path: Path) -> None:
    file = tmp_path / "empty.db"
    file.touch()

    result = invoke(["verify"], env={"RETRIER_DATABASE__URL": f"sqlite:///{file}"})

    assert result.exit_code == 3
    assert "retrier db upgrade" in result.stderr


def test_wrong_settings_end_with_2() -> None:
    result = invoke(["verify"], env={"RETRIER_API__PORT": "x"})

    assert result.exit_code == 2
