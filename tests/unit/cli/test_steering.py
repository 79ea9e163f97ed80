"""retrier operations pause, resume, cancel and rate; and what `show` says of such operations."""

import json
from datetime import timedelta

import pytest

from retrier.domain.retry_operation import Canary, RetryTerms
from tests.support.command_line import CommandLine
from tests.support.waiting import wait_until

NOBODY = "12345678-1234-4234-8234-123456789abc"


@pytest.fixture
def operation(cli: CommandLine) -> str:
    """Give the id of an operation of three messages."""
    cli.bench.fail(3)
    return cli.bench.ask_all().operation_id


def test_an_operation_is_paused_by_the_beginning_of_its_id(
    cli: CommandLine, operation: str
) -> None:
    (line,) = cli.lines("operations", "pause", operation[:8])

    assert line == f"{operation[:8]}: paused; 0 of 3 messages sent back"


def test_it_goes_on(cli: CommandLine, operation: str) -> None:
    cli.lines("operations", "pause", operation)

    (line,) = cli.lines("operations", "resume", operation)

    assert line == f"{operation[:8]}: waiting; 0 of 3 messages sent back"


def test_it_is_cancelled(cli: CommandLine, operation: str) -> None:
    (line,) = cli.lines("operations", "cancel", operation)
    cli.bench.work()

    assert line == f"{operation[:8]}: being cancelled; 0 of 3 messages sent back"
    (line,) = cli.lines("operations", "cancel", operation)
    assert line == f"{operation[:8]}: cancelled; 0 of 3 messages sent back, 3 not sent"


def test_its_rate_is_changed_and_lifted(cli: CommandLine, operation: str) -> None:
    (limited,) = cli.lines("operations", "rate", operation, "50")
    (lifted,) = cli.lines("operations", "rate", operation, "off")

    assert limited.endswith("0 of 3 messages sent back, 50 a second at most")
    assert lifted.endswith("0 of 3 messages sent back")


@pytest.mark.parametrize("rate", ["0", "fast", "1.5", "100001", "²"])
def test_a_rate_that_is_none_is_refused_before_anything_is_asked(
    cli: CommandLine, operation: str, rate: str
) -> None:
    result = cli.run("operations", "rate", operation, rate)

    assert result.exit_code == 2
    assert "RATE is a number from 1 to 100000, or off." in result.stderr
    assert cli.requests == []


def test_the_answer_is_a_document(cli: CommandLine, operation: str) -> None:
    result = cli.run("operations", "pause", operation, "--json")

    assert json.loads(result.stdout)["state"] == "paused"


def test_the_event_log_says_who_it_was(cli: CommandLine, operation: str) -> None:
    cli.lines("operations", "pause", operation, "--user", "bert")

    newest, *_ = cli.api.get("eventlogitems")
    assert newest["who"].startswith("bert ")


@pytest.mark.parametrize("words", [["pause"], ["resume"], ["cancel"]], ids=" ".join)
def test_one_that_is_completed_is_left_as_it_is(
    cli: CommandLine, operation: str, words: list[str]
) -> None:
    cli.bench.work()

    result = cli.run("operations", *words, operation)

    assert result.exit_code == 1
    assert "it is completed" in result.stderr


def test_one_that_nobody_knows_is_refused(cli: CommandLine) -> None:
    assert cli.run("operations", "pause", NOBODY).exit_code == 1


def test_the_sheet_says_what_was_asked_for_and_why_it_waits(cli: CommandLine) -> None:
    cli.bench.fail(3, queue="gone")
    canary = Canary(size=2, wait=timedelta(minutes=2), most_back=1)
    terms = RetryTerms(limit=3, destination="nowhere", rate=50, canary=canary)
    operation = cli.bench.ask_all(terms).operation_id

    def shown() -> str:
        cli.bench.take_turn()
        return "\n".join(cli.lines("operations", "show", operation))

    # Its rate lets the next cut wait, for fractions of a second.
    wait_until(lambda: "its first 2 messages went out, " in shown(), deadline=15)

    sheet = shown()
    assert "50 messages a second" in sheet
    assert "nowhere" in sheet
    assert "waiting: 2 of 2 messages sent, 2 came back, 1 may" in sheet


def test_who_watches_a_paused_one_is_told_why_nothing_happens(
    cli: CommandLine, operation: str
) -> None:
    cli.lines("operations", "pause", operation)
    cli.on_pause = lambda: (cli.lines("operations", "cancel", operation), cli.bench.work())

    result = cli.run("operations", "show", operation, "--watch")

    assert "paused: 0 of 3 sent back; it is paused" in result.stderr


def test_who_watches_a_canary_that_comes_back_is_told_and_let_go(cli: CommandLine) -> None:
    cli.bench.fail(3, queue="gone")
    cli.on_pause = cli.bench.take_turn

    result = cli.run("retry", "--all", "--canary", "2", "--canary-wait", "1s", "--watch")

    assert result.exit_code == 1
    assert "2 of 2 came back" in result.stdout
    assert "`retrier operations resume " in result.stderr
    assert result.stderr.count("paused: ") == 1


def test_what_was_cancelled_is_not_to_be_resumed_any_more(cli: CommandLine) -> None:
    cli.bench.fail(3, queue="gone")
    cli.on_pause = cli.bench.take_turn
    cli.run("retry", "--all", "--canary", "2", "--canary-wait", "1s", "--watch")
    operation = cli.api.get("operations")[0]["id"]

    cli.run("operations", "cancel", operation)
    cli.bench.work()

    assert "resume" not in cli.run("operations", "show", operation).stdout
