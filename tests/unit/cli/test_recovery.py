"""retrier recover: begun with the time of the backup, shown, sent again, ended."""

import json

import pytest

from retrier.store.recovery import get_recovery
from tests.support.bench import QUEUE
from tests.support.command_line import CommandLine

SINCE = ("--since", "2026-05-04T02:00:00Z")


def send(cli: CommandLine, count: int = 1) -> list[str]:
    ids = cli.bench.fail(count)
    cli.bench.ask(ids)
    cli.bench.work()
    return ids


def is_held(cli: CommandLine) -> bool:
    return get_recovery(cli.bench.db) is not None


def test_without_one_it_says_how_to_begin(cli: CommandLine) -> None:
    result = cli.run("recover")

    assert result.exit_code == 0
    assert result.stderr.startswith("no recovery is under way: begin one with --since")
    assert not is_held(cli)


def test_one_is_begun_and_shows_what_was_on_its_way(cli: CommandLine) -> None:
    send(cli, 2)

    result = cli.run("recover", *SINCE)

    assert is_held(cli)
    assert result.stdout.splitlines()[-1].split() == [QUEUE, "2", "0", "0", "0"]
    assert "nothing is presumed since" in result.stderr
    assert cli.run("recover").stdout == result.stdout


def test_one_without_anything_on_its_way_says_so(cli: CommandLine) -> None:
    result = cli.run("recover", *SINCE)

    assert "nothing was on its way" in result.stderr


def test_it_may_be_one_document(cli: CommandLine) -> None:
    shown = json.loads(cli.run("recover", *SINCE, "--json").stdout)

    assert shown["held"]
    assert shown["since"] == "2026-05-04T02:00:00.000000Z"


def test_what_has_no_outcome_is_sent_again_once_a_person_agrees(cli: CommandLine) -> None:
    send(cli, 2)

    result = cli.run("recover", *SINCE, "--retry", "--queue", QUEUE, stdin="y\n")

    assert result.exit_code == 0
    assert "Retry 2 messages again? [y/N]" in result.stderr
    assert result.stdout.startswith("asked for another retry of 2 messages; operations: ")


def test_nothing_is_sent_again_if_nobody_agrees(cli: CommandLine) -> None:
    send(cli)
    cli.run("recover", *SINCE)

    result = cli.run("recover", "--retry", stdin="n\n")

    assert result.exit_code == 1
    assert "Nothing has changed." in result.stderr
    assert len(cli.bench.sent()) == 1


def test_nothing_is_sent_again_without_one(cli: CommandLine) -> None:
    result = cli.run("recover", "--retry", "--yes")

    assert result.exit_code == 1
    assert "No recovery is under way." in result.stderr


def test_one_is_ended(cli: CommandLine) -> None:
    cli.run("recover", *SINCE)

    assert cli.lines("recover", "--done") == ["the recovery is over: presumption goes on"]

    assert not is_held(cli)


@pytest.mark.parametrize(
    "options",
    [("--done", "--retry"), ("--done", *SINCE), ("--queue", "orders"), ("--retry", "--queue", "")],
)
def test_options_that_do_not_go_together_are_refused(
    cli: CommandLine, options: tuple[str, ...]
) -> None:
    assert cli.run("recover", *options).exit_code == 2
    assert cli.requests == []


def test_a_time_that_is_none_is_refused(cli: CommandLine) -> None:
    assert cli.run("recover", "--since", "monday").exit_code == 2
    assert not is_held(cli)
