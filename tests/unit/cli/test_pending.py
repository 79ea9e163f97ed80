"""retrier pending: what it lists, what it asks before it acts, and what it says."""

import json
from datetime import timedelta

import pytest
from sqlalchemy import update

from retrier.cli.pending import TWICE
from retrier.cli.printer import counted, duration
from retrier.store.pending import find_presumable, presume
from retrier.store.schema import failed_message_retries
from tests.support.bench import QUEUE
from tests.support.command_line import CommandLine

BOTH = pytest.mark.parametrize("act", ["retry", "resolve"])


def send(cli: CommandLine, count: int = 1, *, waiting: float = 0) -> list[str]:
    """Let so many retries have been sent, so many seconds ago."""
    ids = cli.bench.fail(count)
    cli.bench.ask(ids)
    cli.bench.work()
    sent = cli.bench.db.read(lambda tx: tx.now) - timedelta(seconds=waiting)
    numbers = [cli.bench.message(each)["number"] for each in ids]
    mine = failed_message_retries.c.number.in_(numbers)
    values = {"sending_since": sent, "forwarded_at": sent}
    with cli.bench.db.engine.begin() as conn:
        conn.execute(update(failed_message_retries).where(mine).values(**values))
    return ids


def pending(cli: CommandLine, *options: str) -> list[str]:
    return cli.lines("pending", "list", "--ids", *options)


class TestTheList:
    def test_says_how_long_each_waits_and_where_it_was_sent(self, cli: CommandLine) -> None:
        (key,) = send(cli, waiting=2 * 86_400 + 5 * 3600)

        title, line = cli.lines("pending", "list")

        assert title.split()[:2] == ["id", "waits"]
        assert line.startswith(f"{key[:8]}  2 d 5 h  ")
        assert QUEUE in line

    def test_has_the_longest_wait_first(self, cli: CommandLine) -> None:
        (young,), (old,) = send(cli), send(cli, waiting=3600)

        assert pending(cli) == [old, young]

    def test_is_narrowed(self, cli: CommandLine) -> None:
        (young,), (old,) = send(cli), send(cli, waiting=3600)
        newest, oldest = (each["id"][:8] for each in cli.asked())

        assert pending(cli, "--older-than", "30m") == [old]
        assert pending(cli, "--queue", QUEUE) == [old, young]
        assert pending(cli, "--queue", "other") == []
        assert pending(cli, "--operation", oldest) == [young]
        assert pending(cli, "--operation", newest) == [old]

    def test_says_when_nothing_waits(self, cli: CommandLine) -> None:
        result = cli.run("pending", "list")

        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr == "no retry waits for its outcome\n"

    def test_is_a_document_where_that_is_asked_for(self, cli: CommandLine) -> None:
        (key,) = send(cli)

        found = json.loads(cli.run("pending", "list", "--json").stdout)

        assert (found["total"], found["items"][0]["id"]) == (1, key)
        assert found["items"][0]["sent_to"] == QUEUE

    def test_can_be_handed_on(self, cli: CommandLine) -> None:
        ids = send(cli, 2)
        listed = "\n".join(pending(cli))

        result = cli.run("pending", "resolve", "-", "--yes", stdin=listed)

        assert result.exit_code == 0
        assert {cli.bench.message(each)["resolution"] for each in ids} == {"by_hand"}


class TestWhatAsks:
    def test_says_that_a_retry_may_be_handled_twice_before_it_acts(self, cli: CommandLine) -> None:
        ids = send(cli, 2)

        result = cli.run("pending", "retry", "--all", stdin="n\n")

        assert result.exit_code == 1
        assert TWICE in result.stderr
        assert "Retry 2 pending retries again? [y/N]" in result.stderr
        assert pending(cli) == ids

    def test_says_so_though_nobody_is_asked(self, cli: CommandLine) -> None:
        send(cli)

        assert TWICE in cli.run("pending", "retry", "--all", "--yes").stderr

    def test_says_so_in_its_help(self, cli: CommandLine) -> None:
        assert "handled twice" in " ".join(cli.run("pending", "retry", "--help").stdout.split())

    @BOTH
    @pytest.mark.parametrize("answer", ["n\n", "\n", ""])
    def test_does_nothing_unless_it_is_told_yes(
        self, cli: CommandLine, act: str, answer: str
    ) -> None:
        (key,) = send(cli)

        result = cli.run("pending", act, key[:8], stdin=answer)

        assert (result.exit_code, result.stdout) == (1, "")
        assert pending(cli) == [key]

    def test_says_how_to_go_on_where_nobody_answers(self, cli: CommandLine) -> None:
        (key,) = send(cli)

        result = cli.run("pending", "resolve", key, stdin="")

        assert "There is nobody to answer: add --yes to go on unasked." in result.stderr

    def test_keeps_its_question_out_of_the_answer(self, cli: CommandLine) -> None:
        (key,) = send(cli)

        result = cli.run("pending", "resolve", key, "--json", stdin="y\n")

        assert json.loads(result.stdout)["resolved"] == 1


class TestARetry:
    @pytest.mark.parametrize("chosen", ["id", "--queue", "--older-than", "--all"])
    def test_sends_again_what_is_chosen(self, cli: CommandLine, chosen: str) -> None:
        (key,) = send(cli, waiting=3600)
        options = {"--queue": [chosen, QUEUE], "--older-than": [chosen, "1h"], "id": [key[:8]]}

        result = cli.run("pending", "retry", *options.get(chosen, [chosen]), stdin="y\n")
        cli.bench.work()

        assert result.exit_code == 0
        assert result.stdout.startswith("asked for another retry of 1 message; operations: ")
        assert cli.bench.sent() == [key, key]
        assert cli.asked()[0]["requested_by"].startswith("ada ")

    def test_leaves_alone_what_is_younger(self, cli: CommandLine) -> None:
        send(cli)

        result = cli.run("pending", "retry", "--older-than", "1h", "--yes")

        assert result.stdout == "asked for another retry of 0 messages; operations: none\n"
        assert len(cli.bench.sent()) == 1


class TestAResolve:
    def test_says_how_many_and_why_not_the_others(self, cli: CommandLine) -> None:
        (key,) = send(cli)
        cli.run("pending", "resolve", key, "--yes")

        (done,) = send(cli)
        result = cli.run("pending", "resolve", key, done, "--yes")

        assert result.exit_code == 0
        assert "resolved: 1 message" in result.stdout
        assert "1  it is resolved already" in result.stdout

    def test_of_nothing_that_can_be_ends_with_1(self, cli: CommandLine) -> None:
        (key,) = send(cli)
        cli.run("pending", "resolve", key, "--yes")

        assert cli.run("pending", "resolve", key, "--yes").exit_code == 1

    def test_is_in_the_event_log_with_who_said_so(self, cli: CommandLine) -> None:
        (key,) = send(cli)

        cli.run("pending", "resolve", key, "--yes", "--user", "grace")

        said = [json.dumps(each) for each in cli.api.get("eventlogitems")]
        assert [each for each in said if "grace" in each and "resolved by hand" in each]


@BOTH
@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--all", "--queue", QUEUE],
        ["3f2b91c0", "--older-than", "1h"],
        ["--older-than", "soon"],
        ["--older-than", "0s"],
        ["--queue", ""],
    ],
)
def test_what_does_not_say_which_is_refused(cli: CommandLine, act: str, options: list[str]) -> None:
    assert cli.run("pending", act, *options, "--yes").exit_code == 2
    assert cli.requests == []


def test_a_retry_says_how_many_wait_and_where_to_look(cli: CommandLine) -> None:
    ids = cli.bench.fail(3)
    cli.on_pause = lambda: [cli.bench.work(), *map(cli.bench.confirm, ids[:2])]

    result = cli.run("retry", "--all", "--watch")

    assert (
        result.stdout
        == "3 of 3 messages sent back; 2 confirmed, 0 came back, 1 without outcome yet\n"
    )
    assert "retrier pending list" in result.stderr


def test_a_retry_whose_messages_are_all_confirmed_says_so(cli: CommandLine) -> None:
    ids = cli.bench.fail(2)
    cli.on_pause = lambda: [cli.bench.work(), *map(cli.bench.confirm, ids)]

    result = cli.run("retry", "--all", "--watch")

    assert result.stdout == "2 of 2 messages sent back; 2 confirmed, 0 came back\n"
    assert "pending list" not in result.stderr


def test_an_operation_says_how_many_wait(cli: CommandLine) -> None:
    send(cli, 2)

    shown = cli.lines("operations", "show", cli.asked()[0]["id"])

    assert "without outcome yet  2" in shown


def test_lists_show_presumed_apart_from_confirmed(cli: CommandLine) -> None:
    presumed, confirmed = send(cli, 2)
    cli.bench.confirm(confirmed)
    due = find_presumable(cli.bench.db, timedelta(0), 0)
    presume(cli.bench.db, cli.bench.context.lease.fence, timedelta(0), due)

    _, *lines = cli.lines("errors", "list", "--status", "resolved")

    shown = {line[:8]: line.split("  ")[1] for line in lines}
    assert shown == {presumed[:8]: "resolved (presumed)", confirmed[:8]: "resolved (confirmed)"}
    assert "resolution      presumed" in "\n".join(cli.lines("errors", "show", presumed))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (59.9, "59 s"),
        (200, "3 min 20 s"),
        (3600, "1 h"),
        (86_400 * 3 + 60, "3 d 1 min"),
    ],
)
def test_a_duration_is_told_in_two_units(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("number", "noun", "words"),
    [(1, "retry", "1 retry"), (2, "retry", "2 retries"), (2_500, "message", "2,500 messages")],
)
def test_a_noun_is_put_into_the_plural(number: int, noun: str, words: str) -> None:
    assert counted(number, noun) == words
