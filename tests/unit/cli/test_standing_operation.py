"""The operation that sends what is due by policy, on the command line."""

import json

import pytest

from retrier.cli.printer import moment
from retrier.domain.retry_operation import STANDING_OPERATION
from tests.support.command_line import CommandLine
from tests.support.scheduling import LATER, schedule

SHORT = STANDING_OPERATION[:8]


@pytest.fixture
def scheduled(cli: CommandLine) -> CommandLine:
    """Give a command line with two messages that are scheduled."""
    schedule(cli.bench.db, cli.bench.fail(2), within=LATER)
    return cli


def test_the_list_begins_with_it(scheduled: CommandLine) -> None:
    scheduled.bench.ask_all()

    _, first, second, *_ = scheduled.lines("operations", "list")

    assert first.startswith(SHORT)
    assert "2 scheduled" in first
    assert "scheduled" not in second


def test_it_is_shown_with_what_is_scheduled(scheduled: CommandLine) -> None:
    at = json.loads(scheduled.run("operations", "show", SHORT, "--json").stdout)["next_due"]

    lines = [" ".join(line.split()) for line in scheduled.lines("operations", "show", SHORT)]

    assert "scheduled 2" in lines
    assert f"next due {moment(at)}" in lines


def test_it_is_shown_without_anything_scheduled(scheduled: CommandLine) -> None:
    schedule(scheduled.bench.db)
    scheduled.bench.work()

    lines = [" ".join(line.split()) for line in scheduled.lines("operations", "show", SHORT)]

    assert "scheduled 0" in lines
    assert "next due nothing" in lines
    assert "waits because no message is scheduled" in lines


def test_other_operations_say_nothing_of_it(cli: CommandLine) -> None:
    cli.bench.fail(1)
    created = cli.bench.ask_all()

    shown = "\n".join(cli.lines("operations", "show", created.operation_id))

    assert "scheduled" not in shown


def test_it_is_paused_and_resumed_by_the_beginning_of_its_id(scheduled: CommandLine) -> None:
    (paused,) = scheduled.lines("operations", "pause", SHORT)
    (resumed,) = scheduled.lines("operations", "resume", SHORT)

    assert paused == f"{SHORT}: paused; 0 of 0 messages sent back, 2 scheduled"
    assert resumed == f"{SHORT}: waiting; 0 of 0 messages sent back, 2 scheduled"


def test_it_cannot_be_cancelled(scheduled: CommandLine) -> None:
    result = scheduled.run("operations", "cancel", SHORT)

    assert result.exit_code == 1
    assert "it sends what is due by policy, and never ends" in result.stderr
