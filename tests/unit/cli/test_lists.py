"""retrier groups, operations and batches."""

import json
from datetime import UTC, datetime

import httpx
import pytest

from retrier.cli.api_client import LARGEST_PAGE
from retrier.domain.failed_message import FailedMessageStatus
from tests.support.bench import QUEUE, Killed
from tests.support.command_line import CommandLine
from tests.support.factories import failure


def stop_at(cli: CommandLine, point: str) -> None:
    cli.bench.kill_at(point)
    with pytest.raises(Killed):
        cli.bench.work()


def test_groups_are_listed_with_their_counts(cli: CommandLine) -> None:
    cli.api.receive(failure(), failure())
    (group,) = cli.api.get("recoverability/groups")

    header, line = cli.lines("groups")

    assert header.split()[:2] == ["id", "unresolved"]
    assert line.split()[:2] == [group["id"][:8], "2"]
    assert header.split()[2::2] == ["first", "last", "title"]
    assert line.endswith(group["title"])


def test_groups_of_another_classifier_are_listed(cli: CommandLine) -> None:
    cli.api.receive(failure(message_type="a"), failure(message_type="b"))

    lines = cli.lines("groups", "--classifier", "Message Type")

    assert sorted(line.split()[-1] for line in lines[1:]) == ["a", "b"]


def test_groups_that_do_not_fit_are_told(cli: CommandLine) -> None:
    cli.api.receive(*(failure(message_type=f"type {n}") for n in range(201)))
    by_type = ("groups", "--classifier", "Message Type")

    cut, whole = cli.run(*by_type), cli.run(*by_type, "--limit", "1000")

    assert (len(cut.stdout.splitlines()), cut.stderr) == (201, "200 of 201 groups\n")
    assert (len(whole.stdout.splitlines()), whole.stderr) == (202, "201 of 201 groups\n")
    assert json.loads(cli.run(*by_type, "--json").stdout)["total"] == 201


def test_groups_are_sorted_and_searched(cli: CommandLine) -> None:
    for title in ("a 1", "a 2", "a 2", "b"):
        cli.api.receive(failure(message_type=title))

    lines = cli.lines(
        "groups", "--classifier", "Message Type", "--text", "A", "--sort", "count", "--ascending"
    )

    assert [line[-3:] for line in lines[1:]] == ["a 1", "a 2"]


def test_groups_that_are_new_are_found(cli: CommandLine) -> None:
    old, new = datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 2, tzinfo=UTC)
    cli.api.receive(
        failure(message_type="old", time_of_failure=old),
        failure(message_type="new", time_of_failure=new),
    )

    lines = cli.lines("groups", "--classifier", "Message Type", "--since", "2020-01-01T12:00:00Z")

    assert [line.split()[-1] for line in lines[1:]] == ["new"]
    assert "2020-01-02 00:00" in lines[1]


def test_nothing_that_matches_is_told(cli: CommandLine) -> None:
    cli.api.receive(failure())

    result = cli.run("groups", "--text", "nobody wrote this")

    assert (result.stdout, result.stderr) == ("", "no group with an unresolved message matches\n")


@pytest.mark.parametrize("words", [["groups"], ["errors", "list"], ["operations", "list"]])
def test_a_page_that_is_too_late_does_not_say_that_there_is_nothing(
    cli: CommandLine, words: list[str]
) -> None:
    cli.bench.fail()
    cli.bench.ask_all()

    result = cli.run(*words, "--page", "7")

    assert result.stdout == ""
    assert result.stderr.startswith("0 of 1 ")


def test_an_unknown_classifier_ends_with_2_and_names_the_known_ones(cli: CommandLine) -> None:
    result = cli.run("groups", "--classifier", "Colour")

    assert result.exit_code == 2
    assert "Message Type" in result.stderr


def test_a_group_tells_of_its_retry(cli: CommandLine) -> None:
    cli.bench.fail(2)
    (group,) = cli.api.get("recoverability/groups")
    cli.run("retry", "--group", group["id"])

    assert "waiting 0%" in cli.lines("groups")[1]


def test_a_group_without_unresolved_messages_is_still_found(cli: CommandLine) -> None:
    (unique_id,) = cli.bench.fail()
    (group,) = cli.api.get("recoverability/groups")
    cli.run("retry", "--group", group["id"][:8], "--watch")
    assert cli.lines("groups") == []

    assert cli.lines("errors", "list", "--ids", "--group", group["id"][:8]) == [unique_id]


def test_operations_are_listed_the_newest_first(cli: CommandLine) -> None:
    first = cli.bench.ask_all().operation_id
    second = cli.bench.ask_all().operation_id

    _, *lines = cli.lines("operations", "list")

    assert [line.split()[0] for line in lines] == [second[:8], first[:8]]
    assert len(cli.lines("operations", "list", "--limit", "1")) == 2


def test_one_operation_is_shown_by_its_first_characters(cli: CommandLine) -> None:
    cli.bench.fail(2)
    operation = cli.bench.ask_all().operation_id

    lines = cli.lines("operations", "show", operation[:8])

    assert lines[0].split() == ["id", operation]
    assert "state      waiting" in lines
    assert "remaining  2" in lines


def test_an_operation_shows_what_was_skipped_and_why(cli: CommandLine) -> None:
    operation = cli.bench.ask(["a", "b"]).operation_id
    cli.bench.work()

    lines = cli.lines("operations", "show", operation)

    assert [line.split()[:2] for line in lines[-2:]] == [["a", "no"], ["b", "no"]]


def test_an_unknown_operation_ends_with_1(cli: CommandLine) -> None:
    assert cli.run("operations", "show", "12345678").exit_code == 1


def test_a_batch_alive_is_listed_and_shown(cli: CommandLine) -> None:
    cli.bench.fail(2)
    cli.bench.ask_all()
    stop_at(cli, "forwarding.published")
    (batch,) = cli.bench.batches()

    _, line = cli.lines("batches", "list")
    shown = cli.lines("batches", "show", batch["batch_id"][:8])

    assert line.split()[:2] == [batch["batch_id"][:8], "forwarding"]
    assert f"staging id      {batch['staging_id']}" in shown
    assert len(shown[shown.index("claims in doubt:") + 2 :]) == 2


def test_a_batch_that_is_done_is_unknown(cli: CommandLine) -> None:
    result = cli.run("batches", "show", "12345678")

    assert (result.exit_code, cli.lines("batches", "list")) == (1, [])


@pytest.mark.parametrize("noun", ["groups", "operations", "batches"])
def test_every_list_is_one_json_document(cli: CommandLine, noun: str) -> None:
    cli.bench.fail()
    cli.bench.ask_all(queue=QUEUE)
    stop_at(cli, "marking.moved")
    path = "recoverability/groups" if noun == "groups" else noun

    document = json.loads(cli.run(*noun.split(), *LIST[noun], "--json").stdout)

    assert document == {"total": 1, "items": cli.api.get(path)}


@pytest.mark.parametrize("noun", ["operations", "batches"])
def test_one_of_a_list_is_the_document_of_the_service(cli: CommandLine, noun: str) -> None:
    cli.bench.fail()
    cli.bench.ask_all()
    stop_at(cli, "marking.moved")
    (key,) = cli.api.ids(noun)

    document = json.loads(cli.run(noun, "show", key, "--json").stdout)

    assert document == cli.api.get(f"{noun}/{key}")


LIST: dict[str, list[str]] = {"groups": [], "operations": ["list"], "batches": ["list"]}


def test_a_text_that_is_too_long_is_refused_with_its_name(cli: CommandLine) -> None:
    result = cli.run("errors", "list", "--text", "a" * 50_000)

    assert result.exit_code == 2
    assert "--text: text has at most 1024 bytes" in result.stderr


def test_a_list_of_ids_for_a_pipe_misses_none_while_others_leave_it(cli: CommandLine) -> None:
    """`errors list --ids | retrier ...`, while somebody else archives what was listed first."""
    unique_ids = cli.api.receive(*(failure() for _ in range(LARGEST_PAGE + 3)))

    def answer(request: httpx.Request) -> httpx.Response:
        found: httpx.Response = cli.api.http.get(str(request.url))
        for each in unique_ids[-9:]:  # the newest are listed first
            cli.api.set_status(each, FailedMessageStatus.ARCHIVED)
        return found

    cli.answer = answer
    listed = cli.lines("errors", "list", "--status", "unresolved", "--ids", "--limit", "5000")

    assert sorted(listed) == sorted(unique_ids)
