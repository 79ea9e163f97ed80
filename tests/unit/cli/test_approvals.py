"""retrier operations approve and refuse; and what is said of an operation that waits for approval."""

from collections.abc import Iterator

import pytest

from retrier.domain.access import AccessRole
from retrier.domain.approval import ApprovalRules, ApprovedAct
from tests.conftest import opened_empty
from tests.support.access import rules, token_of
from tests.support.api import Api
from tests.support.command_line import CommandLine

RULES = ApprovalRules(over=2, acts=frozenset({ApprovedAct.EDIT}))
ASKER, SECOND = token_of(AccessRole.OPERATOR), token_of(AccessRole.ADMIN)


@pytest.fixture
def cli(request: pytest.FixtureRequest) -> Iterator[CommandLine]:
    """Give a command line where more than two messages, and edits, wait for a second one."""
    with opened_empty("sqlite", request) as db:
        made = CommandLine(db)
        made.api.http.close()
        made.api = Api(db, rules=rules(), approval=RULES)
        yield made
        made.api.http.close()


def ask(cli: CommandLine) -> tuple[str, str]:
    """Ask for a retry of three; return the short id of its operation, and what was said."""
    cli.bench.fail(3)
    result = cli.run("retry", "--all", RETRIER_TOKEN=ASKER)
    assert result.exit_code == 0, result.output
    return result.stdout.split("operation ")[1][:8], result.output


def test_who_asks_for_much_is_told_that_it_waits(cli: CommandLine) -> None:
    operation, said = ask(cli)

    assert f"`retrier operations approve {operation}`" in said


def test_another_person_approves_it(cli: CommandLine) -> None:
    operation, _ = ask(cli)

    result = cli.run("operations", "approve", operation, RETRIER_TOKEN=SECOND)

    assert result.exit_code == 0, result.output
    assert result.stdout.strip() == f"{operation}: waiting; 0 of 3 messages sent back"
    cli.bench.work()
    assert len(cli.bench.sent()) == 3


def test_another_person_refuses_it(cli: CommandLine) -> None:
    operation, _ = ask(cli)

    result = cli.run("operations", "refuse", operation, RETRIER_TOKEN=SECOND)

    assert result.stdout.strip() == f"{operation}: being cancelled; 0 of 3 messages sent back"


def test_who_asked_is_refused(cli: CommandLine) -> None:
    operation, _ = ask(cli)

    result = cli.run("operations", "approve", operation, RETRIER_TOKEN=ASKER)

    assert result.exit_code == 1
    assert "another person must" in result.stderr


def test_it_is_shown_with_who_asked_and_what_is_approved(cli: CommandLine) -> None:
    operation, _ = ask(cli)

    shown = cli.run("operations", "show", operation, RETRIER_TOKEN=SECOND).stdout
    listed = cli.run("operations", "list", RETRIER_TOKEN=SECOND).stdout

    assert "token operator-all" in shown
    assert "plan hash" in shown
    assert "it waits for approval by a second person" in shown
    assert "asked for approval" in listed


def test_who_watches_it_sees_it_wait_until_another_person_approves(cli: CommandLine) -> None:
    operation, _ = ask(cli)

    def approve() -> None:
        cli.on_pause = cli.bench.work
        cli.run("operations", "approve", operation, RETRIER_TOKEN=SECOND)
        cli.bench.work()

    cli.on_pause = approve
    result = cli.run("operations", "show", operation, "--watch", RETRIER_TOKEN=ASKER)

    assert "it waits for approval by a second person" in result.stderr
    assert "completed" in result.stdout
    assert len(cli.bench.sent()) == 3


def test_who_edits_is_told_that_it_waits(cli: CommandLine) -> None:
    (key,) = cli.bench.fail()

    said = cli.run(
        "errors", "edit", key, "--header", "Shop.Tenant=a", "--yes", RETRIER_TOKEN=SECOND
    )

    operation = said.stdout.split("operation ")[1][:8]
    assert "the edit waits for approval" in said.stdout
    assert f"`retrier operations approve {operation}`" in said.stderr
