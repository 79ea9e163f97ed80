"""retrier streams: listed, shown and released."""

import json

import pytest

from tests.support.bench import QUEUE, Bench
from tests.support.command_line import CommandLine
from tests.support.factories import failure
from tests.support.streams import ORDER, fail_in_stream


@pytest.fixture
def ids(cli: CommandLine) -> list[str]:
    return fail_in_stream(Bench(cli.api.db), 3)


def test_streams_are_listed(cli: CommandLine, ids: list[str]) -> None:
    shown = cli.run("streams", "list", "--held").stdout

    assert ORDER in shown
    assert ids[0][:8] in shown


def test_no_stream_is_said(cli: CommandLine) -> None:
    assert "no stream has open messages" in cli.run("streams", "list").stderr


def test_one_is_shown_with_what_holds_its_messages(cli: CommandLine, ids: list[str]) -> None:
    shown = cli.run("streams", "show", ORDER, "--queue", QUEUE).stdout

    assert all(each[:8] in shown for each in ids)
    assert "held behind" in shown


def test_all_that_is_held_is_released(cli: CommandLine, ids: list[str]) -> None:
    lines = cli.lines("streams", "release", ORDER, "--queue", QUEUE)

    assert lines == [f"released: {len(ids) - 1} messages of stream {ORDER}"]


def test_one_message_is_released_by_a_short_id(cli: CommandLine, ids: list[str]) -> None:
    done = cli.run(
        "streams", "release", ORDER, "--queue", QUEUE, "--id", ids[2][:8], "--json"
    ).stdout

    assert json.loads(done)["ids"] == [ids[2]]


def test_a_message_that_nothing_holds_is_named(cli: CommandLine, ids: list[str]) -> None:
    result = cli.run("streams", "release", ORDER, "--queue", QUEUE, "--id", ids[0])

    assert f"{ids[0]}: nothing held it" in result.stderr


def test_its_messages_are_listed_and_retried_as_any_selection(
    cli: CommandLine, ids: list[str]
) -> None:
    cli.api.receive(failure())

    assert sorted(cli.lines("errors", "list", "--stream", ORDER, "--ids")) == sorted(ids)
    cli.run("retry", "--stream", ORDER)

    (operation,) = cli.asked()
    assert (operation["total"], operation["selection"]) == (len(ids), {"stream": ORDER})


@pytest.mark.parametrize("act", ["show", "release"])
def test_a_stream_that_is_unknown_is_refused(cli: CommandLine, act: str) -> None:
    result = cli.run("streams", act, "other", "--queue", QUEUE)

    assert result.exit_code == 1
    assert "No open message belongs to the stream other" in result.stderr


def test_the_queue_has_to_be_named(cli: CommandLine) -> None:
    assert cli.run("streams", "show", ORDER).exit_code == 2


def test_all_its_messages_are_shown_and_how_many_there_are(cli: CommandLine) -> None:
    fail_in_stream(Bench(cli.api.db), 60)

    result = cli.run("streams", "show", ORDER, "--queue", QUEUE)

    assert result.stderr == "60 of 60 messages\n"
    assert result.stdout.count("held behind") == 59
