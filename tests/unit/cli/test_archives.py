"""retrier archive, unarchive, resolve and archive-operations: what they ask for, and what they say."""

import json

import pytest

from retrier.domain.archive_operation import AT_ONCE, Act
from tests.support.archiving import ask, work_off_all
from tests.support.bench import QUEUE
from tests.support.command_line import CommandLine

MANY = AT_ONCE + 1


class TestAnAct:
    @pytest.mark.parametrize(
        ("command", "status"), [("archive", "archived"), ("resolve", "resolved")]
    )
    def test_is_done_to_named_messages(self, cli: CommandLine, command: str, status: str) -> None:
        first, second = cli.bench.fail(2)

        (line,) = cli.lines(command, first[:8])

        assert line.startswith(f"{status}: 1 message, operation ")
        assert cli.bench.statuses() == {first: status, second: "unresolved"}

    def test_is_done_to_what_meets_all_conditions(self, cli: CommandLine) -> None:
        (wanted,) = cli.bench.fail(message_type="A")
        (other,) = cli.bench.fail(message_type="B")

        cli.lines("archive", "--queue", QUEUE, "--message-type", "A")

        assert cli.bench.statuses() == {wanted: "archived", other: "unresolved"}

    def test_takes_back_what_was_archived(self, cli: CommandLine) -> None:
        (key,) = cli.bench.fail()
        ask(cli.bench, ids=(key,))

        cli.lines("unarchive", "--all")

        assert cli.bench.statuses() == {key: "unresolved"}

    def test_about_many_says_how_to_follow_it(self, cli: CommandLine) -> None:
        cli.bench.fail(MANY)

        result = cli.run("archive", "--all", "--why", "closed")

        assert result.stdout.startswith("asked to archive 1,001 messages: operation ")
        assert "retrier archive-operations show" in result.stderr

    @pytest.mark.parametrize("many", [1, MANY])
    def test_says_how_an_archive_is_taken_back(self, cli: CommandLine, many: int) -> None:
        cli.bench.fail(many)

        result = cli.run("archive", "--all")

        (archive,) = cli.api.ids("archive_operations")
        assert f"retrier archive-operations undo {archive[:8]}" in result.stderr
        assert "undo" not in cli.run("resolve", "--all").stderr

    def test_that_changed_nothing_of_what_was_named_ends_with_1(self, cli: CommandLine) -> None:
        (key,) = cli.bench.fail()
        ask(cli.bench, ids=(key,))

        assert cli.run("archive", key).exit_code == 1

    def test_needs_to_know_to_what(self, cli: CommandLine) -> None:
        assert cli.run("archive").exit_code == 2
        assert cli.run("archive", "--all", "--queue", "a").exit_code == 2

    def test_is_seen_before_and_changes_nothing(self, cli: CommandLine) -> None:
        ids = cli.bench.fail(2)

        lines = cli.lines("archive", *ids, "--dry-run")

        assert lines[0] == "would archive 2 messages: 2 named messages"
        assert set(cli.bench.statuses().values()) == {"unresolved"}

    def test_is_a_document_where_that_is_asked_for(self, cli: CommandLine) -> None:
        (key,) = cli.bench.fail()

        done = json.loads(cli.run("archive", key, "--json").stdout)

        assert (done["archived"], done["state"]) == (1, "completed")


class TestOperations:
    def test_are_listed_with_what_they_did(self, cli: CommandLine) -> None:
        cli.bench.fail(2)
        asked = ask(cli.bench, queue=QUEUE)

        _, line = cli.lines("archive-operations", "list")

        assert line.split()[:2] == [asked.operation_id[:8], "archive"]

    def test_are_shown_with_the_reasons_of_what_they_left(self, cli: CommandLine) -> None:
        asked = ask(cli.bench, ids=("nobody",))

        shown = cli.run("archive-operations", "show", asked.operation_id[:8]).stdout

        assert "no failed message has this id" in shown

    def test_are_followed_to_their_end(self, cli: CommandLine) -> None:
        cli.bench.fail(3)
        asked = ask(cli.bench, queue=QUEUE)
        work_off_all(cli.bench)

        result = cli.run("archive-operations", "show", asked.operation_id, "--watch")

        assert "completed: 3 of 3 changed" in result.stderr

    def test_are_undone(self, cli: CommandLine) -> None:
        (key,) = cli.bench.fail()
        asked = ask(cli.bench, ids=(key,))

        (line,) = cli.lines("archive-operations", "undo", asked.operation_id[:8])

        assert line.startswith("unarchived: 1 message")
        assert cli.bench.statuses() == {key: "unresolved"}

    def test_whose_messages_are_gone_are_not_undone_and_it_says_why(self, cli: CommandLine) -> None:
        asked = ask(cli.bench, ids=tuple(cli.bench.fail()))
        cli.lines("archive-operations", "undo", asked.operation_id)

        result = cli.run("archive-operations", "undo", asked.operation_id)

        assert result.exit_code == 1
        assert "are archived no longer" in result.stderr
        assert "retention.archived" in result.stderr

    def test_that_did_not_archive_are_not_undone(self, cli: CommandLine) -> None:
        (key,) = cli.bench.fail()
        asked = ask(cli.bench, Act.RESOLVE, ids=(key,))

        result = cli.run("archive-operations", "undo", asked.operation_id)

        assert (result.exit_code, "cannot be undone" in result.stderr) == (1, True)
