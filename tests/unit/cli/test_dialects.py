"""retrier dialects test: what would become of messages, in a file or among failed imports."""

import json
from pathlib import Path

import pytest

from retrier.ingestion.parsing import QueueMapping
from retrier.settings import load_settings
from tests.support.command_line import CommandLine
from tests.support.factories import ERROR_QUEUE, failed_import
from tests.support.raw_messages import raw_properties

SETTINGS = """
broker: {url: "amqp://127.0.0.1/"}
ingestion:
  error_queues: [error, dead]
  dialects:
    - {name: ours, when: {header: X-Error}, queue: "header:X-Origin", message: "header:X-Error",
       message_id: "body:/id", strip: ["X-Error*"]}
"""
OURS = {"headers": {"X-Error": "no stock", "X-Origin": "orders"}, "body": {"id": 7}}
REBUS = {
    "properties": {"headers": {"rbs2-source-queue": "packing", "rbs2-error-details": "boom"}},
    "payload": "aGk=",
    "payload_encoding": "base64",
}


@pytest.fixture
def settings(tmp_path: Path) -> str:
    path = tmp_path / "retrier.yaml"
    path.write_text(SETTINGS)
    return str(path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "messages.json"


def told(cli: CommandLine, settings: str, *more: str) -> list[dict[str, object]]:
    result = cli.run("dialects", "test", "--config", settings, "--json", *more)
    messages: list[dict[str, object]] = json.loads(result.stdout)["messages"]
    return messages


def test_a_message_of_a_file_is_shown_with_what_is_read_and_left_out(
    cli: CommandLine, settings: str, file: Path
) -> None:
    file.write_text(json.dumps(OURS))

    assert told(cli, settings, str(file)) == [
        {
            "error_queue": "error",
            "becomes": "failed message",
            "dialect": "ours",
            "queue": "orders",
            "destination": "orders",
            "message_id": "7",
            "exception_message": "no stock",
            "left_out": ["X-Error"],
            "goes_back": "the message as it came",
        }
    ]


def test_several_are_lines(cli: CommandLine, settings: str, file: Path) -> None:
    file.write_text("\n".join(json.dumps(each) for each in (OURS, REBUS)))

    title, first, second = cli.lines("dialects", "test", "--config", settings, str(file))

    assert title.split() == ["becomes", "read", "as", "failed", "on", "goes", "to", "why"]
    assert first.split() == ["failed", "message", "ours", "orders", "orders", "no", "stock"]
    assert second.split() == ["failed", "message", "rebus", "packing", "packing", "boom"]


def test_what_stays_a_failed_import_ends_it_with_1(
    cli: CommandLine, settings: str, file: Path
) -> None:
    file.write_text('{"headers": {}, "body": "x"}')

    result = cli.run("dialects", "test", "--config", settings, str(file))

    assert result.exit_code == 1
    assert "none of the headers that say where it failed is there" in result.stdout


def test_failed_imports_are_tried_and_stay_as_they_are(cli: CommandLine, settings: str) -> None:
    raw = raw_properties(OURS["headers"])
    cli.api.receive(failed_import(raw=raw, body=b'{"id": 8}'), failed_import(body=b"other"))

    found = told(cli, settings)

    assert {each["becomes"] for each in found} == {"failed message", "failed import"}
    assert "8" in {each.get("message_id") for each in found}
    assert len(cli.api.ids("imports")) == 2


def test_those_of_one_error_queue_can_be_named(cli: CommandLine, settings: str) -> None:
    cli.api.receive(failed_import(), failed_import(error_queue="dead", body=b"other"))

    assert [each["error_queue"] for each in told(cli, settings, "--queue", "dead")] == ["dead"]


def test_a_service_with_these_settings_reads_failed_imports_by_them(
    cli: CommandLine, settings: str
) -> None:
    cli.api.receive(failed_import(raw=raw_properties(OURS["headers"]), body=b'{"id": 8}'))
    own = tuple(each.dialect for each in load_settings(Path(settings), {}).ingestion.dialects)
    cli.api.mappings[ERROR_QUEUE] = QueueMapping(queue=ERROR_QUEUE, own=own)

    cli.lines("imports", "retry", "--all", "--user", "ada")

    (found,) = cli.api.get("errors")
    assert (found["message_id"], found["queue_address"]) == ("8", "orders")
    assert found["exception"]["message"] == "no stock"
    assert cli.api.ids("imports") == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "line 1 is no JSON"),
        ("[1]", "message 1 is no JSON object"),
        ('{"body": {"encoding": "base64", "content": "x"}}', "base64"),
    ],
)
def test_a_file_that_holds_no_messages_is_refused(
    cli: CommandLine, settings: str, file: Path, text: str, words: str
) -> None:
    file.write_text(text)

    result = cli.run("dialects", "test", "--config", settings, str(file))

    assert result.exit_code == 1
    assert words in result.stderr


def test_a_file_that_is_not_there_is_refused(cli: CommandLine, settings: str, file: Path) -> None:
    result = cli.run("dialects", "test", "--config", settings, str(file))

    assert "cannot be read" in result.stderr


def test_one_format_can_read_them_all(cli: CommandLine, settings: str, file: Path) -> None:
    file.write_text('{"headers": {"rbs2-source-queue": "packing"}, "body": "x"}')

    (found,) = told(cli, settings, "--dialect", "rebus", str(file))

    assert (found["becomes"], found["dialect"], found["queue"]) == (
        "failed message",
        "rebus",
        "packing",
    )


def test_failed_imports_are_read_again_as_one_format(cli: CommandLine) -> None:
    raw = raw_properties({"rbs2-source-queue": "packing"})
    cli.api.receive(failed_import(raw=raw), failed_import(raw=raw, body=b"other"))
    one, _ = cli.api.ids("imports")

    cli.lines("imports", "retry", one, "--dialect", "rebus", "--user", "ada")
    cli.lines("imports", "retry", "--all", "--dialect", "rebus", "--user", "ada")

    assert [each["queue_address"] for each in cli.api.get("errors")] == ["packing", "packing"]


@pytest.mark.parametrize(("name", "words"), [("", "give the name"), ("x", "No format has")])
def test_a_format_that_nobody_knows_is_refused(cli: CommandLine, name: str, words: str) -> None:
    result = cli.run("imports", "retry", "--all", "--dialect", name)

    assert result.exit_code != 0
    assert words in result.stderr
