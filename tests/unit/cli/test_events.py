"""retrier events, errors history, processor and ledger."""

import json
from collections.abc import Iterator

import httpx
import pytest

from tests.support.command_line import CommandLine
from tests.support.factories import failure

OURS = {"X-Particular-Version": "6.19.2"}


def told(event_id: int, kind: str = "retry_asked") -> str:
    """Return an event as the service writes it."""
    event = {
        "id": str(event_id),
        "kind": kind,
        "description": f"number  {event_id}",
        "raised_at": "2026-05-04T12:00:00.000000Z",
        "who": "ada",
    }
    return f"id: {event_id}\ndata: {json.dumps(event)}\n\n"


class Connections:
    """What the service answers to one connection after the other."""

    def __init__(self, *answers: str | int) -> None:
        self._answers: Iterator[str | int] = iter(answers)
        self.places: list[str | None] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.places.append(request.headers.get("Last-Event-ID"))
        match next(self._answers):
            case int(status):
                problem = {"detail": "100 readers.", "advice": "Come again."}
                return httpx.Response(status, json=problem, headers=OURS)
            case text:
                return httpx.Response(200, text=text, headers=OURS)


def test_events_are_listed_newest_first(cli: CommandLine) -> None:
    cli.run("retry", "--queue", "a")
    cli.run("retry", "--queue", "b")

    header, newest, oldest = cli.lines("events")

    assert header.split() == ["at", "(UTC)", "kind", "by", "what"]
    assert "queue b" in newest
    assert "queue a" in oldest


def test_a_kind_that_does_not_exist_is_refused_with_the_nearest(cli: CommandLine) -> None:
    result = cli.run("events", "--kind", "nonsense", "--kind", "retry_askd")

    assert result.exit_code == 2
    assert "No event has the kind nonsense" in result.stderr


def test_events_are_narrowed_by_person_and_time(cli: CommandLine) -> None:
    cli.run("retry", "--queue", "a", "--user", "ada")
    cli.run("retry", "--queue", "b", "--user", "grace")

    assert len(cli.lines("events", "--people", "--who", "grace")) == 2
    assert len(cli.lines("events", "--since", "1h")) == 3
    assert "no event matches" in cli.run("events", "--until", "1h").stderr


def test_only_events_of_a_kind_or_an_operation_are_listed(cli: CommandLine) -> None:
    cli.run("retry", "--queue", "a")
    cli.run("retry", "--queue", "b")
    first = cli.asked()[-1]["id"]

    assert len(cli.lines("events", "--operation", first[:8])) == 2
    assert len(cli.lines("events", "--kind", "import_sent", "--kind", "retry_asked")) == 3
    assert cli.lines("events", "--kind", "import_sent") == []


def test_what_happens_is_shown_until_so_many_have_come(cli: CommandLine) -> None:
    cli.answer = Connections(told(1) + told(2) + told(3))

    lines = cli.lines("events", "--follow", "--limit", "2")

    assert lines == [
        "2026-05-04 12:00:00Z retry_asked: number 1 (ada)",
        "2026-05-04 12:00:00Z retry_asked: number 2 (ada)",
    ]


def test_as_json_each_event_is_one_line(cli: CommandLine) -> None:
    cli.answer = Connections(told(1) + told(2))

    lines = cli.lines("events", "--follow", "--limit", "2", "--json")

    assert [json.loads(each)["description"] for each in lines] == ["number  1", "number  2"]


def test_a_lost_connection_goes_on_where_it_was(cli: CommandLine) -> None:
    cli.answer = answers = Connections("retry: 2000\nid: 7\n\n", told(8), 503, told(9))

    result = cli.run("events", "--follow", "--limit", "2", "--json")

    assert answers.places == [None, "7", "8", "8"]
    assert [json.loads(each)["id"] for each in result.stdout.splitlines()] == ["8", "9"]
    assert "Connecting again" in result.stderr


def test_half_an_event_is_none(cli: CommandLine) -> None:
    half = told(8)[:-20]
    cli.answer = answers = Connections(told(7) + half, told(8))

    assert len(cli.lines("events", "--follow", "--limit", "2")) == 2
    assert answers.places == [None, "7"]


def test_a_service_that_refuses_at_first_ends_with_3(cli: CommandLine) -> None:
    cli.answer = Connections(503)

    result = cli.run("events", "--follow")

    assert (result.exit_code, result.stdout) == (3, "")
    assert "100 readers. Come again." in result.stderr


def test_ctrl_c_ends_with_130(cli: CommandLine) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    cli.answer = Connections(told(1))
    cli.on_pause = interrupt

    result = cli.run("events", "--follow")

    assert (result.exit_code, len(result.stdout.splitlines())) == (130, 1)


def test_pages_of_what_is_to_come_make_no_sense(cli: CommandLine) -> None:
    assert cli.run("events", "--follow", "--page", "2").exit_code == 2


def test_the_history_of_a_message_is_shown(cli: CommandLine) -> None:
    (key,) = cli.bench.fail()
    cli.run("retry", key)
    cli.bench.work()

    lines = cli.lines("errors", "history", key[:8])

    kinds = [line.split()[2] for line in lines[1:]]
    assert sorted(kinds) == ["failed", "retry_asked", "sending", "sent"]


def test_the_failures_of_a_message_are_shown(cli: CommandLine) -> None:
    (key,) = cli.api.receive(failure(exception_message="nothing left"))

    _, line = cli.lines("errors", "history", key, "--attempts")

    assert line.endswith("Shop.OutOfStock: nothing left")


def test_the_history_is_one_json_document(cli: CommandLine) -> None:
    (key,) = cli.bench.fail()

    document = json.loads(cli.run("errors", "history", key, "--json").stdout)

    assert (document["total"], document["items"][0]["kind"]) == (1, "failed")


def test_the_processor_says_what_it_does(cli: CommandLine) -> None:
    cli.bench.fail()
    cli.run("retry", "--all")

    lines = cli.lines("processor")

    assert lines[0].split(maxsplit=1) == ["processor", "here, process 1"]
    assert "stage      marking" in lines
    assert lines[-1].split()[1:3] == ["waiting", "1"]


def test_a_service_without_a_processor_says_so(cli: CommandLine) -> None:
    cli.bench.context.lease.release()

    assert "waits for  processor" in cli.lines("processor")


def test_a_ledger_that_adds_up_ends_with_0(cli: CommandLine) -> None:
    cli.bench.fail(2)

    lines = [line.split() for line in cli.lines("ledger")]

    assert lines.count(["difference", "0"]) == 2


@pytest.mark.parametrize("part", ["deliveries", "messages"])
def test_a_ledger_that_does_not_add_up_ends_with_1(cli: CommandLine, part: str) -> None:
    counts = {name: {"difference": int(name == part)} for name in ("deliveries", "messages")}
    cli.answer = lambda _request: httpx.Response(200, json=counts, headers=OURS)

    assert cli.run("ledger").exit_code == 1
