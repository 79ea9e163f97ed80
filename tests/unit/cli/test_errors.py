"""retrier errors: lists, one message, its body."""

import gzip
import json
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from retrier.cli.errors import SortKey, Status
from retrier.clock import SystemClock
from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.streams import read_position
from retrier.store.message_lists import Sort as ApiSort
from retrier.store.recording import record_received
from tests.support.command_line import CommandLine
from tests.support.factories import FAILED_AT, failure

TWINS = ("11111111-2222-3333-4444-000000000001", "11111111-2222-3333-4444-000000000002")


def whole_ids(cli: CommandLine, *arguments: str) -> list[str]:
    return cli.lines("errors", "list", "--ids", *arguments)


def test_a_list_has_a_header_and_a_line_per_message(cli: CommandLine) -> None:
    (unique_id,) = cli.api.receive(failure(queue="orders"))

    header, line = cli.lines("errors", "list")

    assert header.split()[:3] == ["id", "status", "failed"]
    assert line.startswith(f"{unique_id[:8]}  unresolved  2026-05-04 12:00  ")
    assert line.split()[4:6] == ["1", "orders"]
    assert line.endswith("Shop.PlaceOrder  Shop.OutOfStock: nothing left")


def test_hosts_are_counted_the_most_first(cli: CommandLine) -> None:
    cli.api.receive(*(failure(host=host) for host in ("box-1", "box-2", "box-2", None)))

    _, *lines = cli.lines("errors", "hosts")

    assert [each.split() for each in lines] == [["2", "box-2"], ["1", "box-1"]]
    assert json.loads(cli.run("errors", "hosts", "--json").stdout) == [
        {"host": "box-2", "count": 2},
        {"host": "box-1", "count": 1},
    ]


def test_no_host_is_counted_where_nothing_tells_one(cli: CommandLine) -> None:
    cli.api.receive(failure())

    assert "tells on which host" in cli.run("errors", "hosts").stderr


def test_where_it_failed_is_shown_and_can_be_chosen(cli: CommandLine) -> None:
    place = {"host": "box-1", "process": "4711", "node": "w1@box-1"}
    wanted, _ = cli.api.receive(failure(**place), failure(host="box-2"))

    for name, value in place.items():
        assert whole_ids(cli, f"--{name}", value) == [wanted]
    sheet = [each.split() for each in cli.lines("errors", "show", wanted)]
    for name, value in place.items():
        assert [name, value] in [[each[0].strip(":"), *each[1:]] for each in sheet if each]


def test_a_list_says_where_retries_go_if_one_goes_elsewhere(cli: CommandLine) -> None:
    cli.api.receive(failure(queue="orders"))
    before = cli.lines("errors", "list")
    cli.api.receive(failure(queue="bills", destination="review"))

    header, *lines = cli.lines("errors", "list")

    assert "destination" not in before[0]
    place = header.index("destination")
    assert {line[place:].split("  ")[0] for line in lines} == {"", "review"}


def test_a_destination_that_is_not_known_is_said_with_the_ways_out(cli: CommandLine) -> None:
    (key,) = cli.api.receive(failure(queue="failed", destination=""))

    header, line = cli.lines("errors", "list")
    sheet = "\n".join(cli.lines("errors", "show", key))

    assert line[header.index("destination") :].startswith("not known")
    assert "not known" in sheet
    assert "retrier errors retry --destination" not in sheet
    assert "--destination" in sheet


def test_columns_of_a_plain_list_are_aligned(cli: CommandLine) -> None:
    cli.api.receive(failure(queue="orders"), failure(queue="q"))

    header, *lines = cli.lines("errors", "list")

    assert {line.index("Shop.PlaceOrder") for line in lines} == {header.index("message type")}


def test_how_many_there_are_is_told_beside_the_list(cli: CommandLine) -> None:
    cli.api.receive(failure(), failure(), failure())

    result = cli.run("errors", "list", "--limit", "2")

    assert result.stderr == "2 of 3 messages\n"


@pytest.mark.parametrize(
    "status", [FailedMessageStatus.RESOLVED, FailedMessageStatus.ARCHIVED], ids=str
)
def test_a_list_says_how_many_of_it_need_nothing_any_more(
    cli: CommandLine, status: FailedMessageStatus
) -> None:
    (settled, _) = cli.api.receive(failure(), failure())
    before = cli.run("errors", "list").stderr
    cli.api.set_status(settled, status)

    after = cli.run("errors", "list").stderr
    narrowed = cli.run("errors", "list", "--status", status.value).stderr

    assert "resolved or archived" not in before + narrowed
    assert "1 of these is resolved or archived; what is left: `retrier errors list --" in after


def test_an_empty_list_prints_nothing_to_standard_output(cli: CommandLine) -> None:
    result = cli.run("errors", "list")

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "there is no failed message\n"


def test_an_empty_list_with_a_condition_says_that_nothing_matches(cli: CommandLine) -> None:
    result = cli.run("errors", "list", "--queue", "orders")

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "no failed message matches\n"


def test_the_newest_failure_comes_first(cli: CommandLine) -> None:
    old, new = cli.api.receive(failure(), failure(time_of_failure=FAILED_AT + timedelta(minutes=1)))

    assert whole_ids(cli) == [new, old]
    assert whole_ids(cli, "--ascending") == [old, new]


def test_a_list_can_be_sorted_otherwise(cli: CommandLine) -> None:
    first, second = cli.api.receive(failure(message_type="a"), failure(message_type="b"))

    assert whole_ids(cli, "--sort", "message_type") == [second, first]


@pytest.mark.parametrize(
    ("option", "field"),
    [
        ("--queue", "queue"),
        ("--endpoint", "endpoint"),
        ("--exception-type", "exception_type"),
        ("--message-type", "message_type"),
    ],
)
def test_a_list_can_be_narrowed(cli: CommandLine, option: str, field: str) -> None:
    wanted, _ = cli.api.receive(failure(**{field: "this one"}), failure(**{field: "another"}))

    assert whole_ids(cli, option, "this one") == [wanted]


def test_statuses_add_up(cli: CommandLine) -> None:
    unresolved, resolved, archived = cli.api.receive(failure(), failure(), failure())
    cli.api.set_status(resolved, FailedMessageStatus.RESOLVED)
    cli.api.set_status(archived, FailedMessageStatus.ARCHIVED)

    found = whole_ids(cli, "--status", "unresolved", "--status", "archived")

    assert sorted(found) == sorted([unresolved, archived])


def test_a_status_nobody_knows_is_refused(cli: CommandLine) -> None:
    # Given that the service ignores such a name and would list everything
    result = cli.run("errors", "list", "--status", "pending")

    assert result.exit_code == 2
    assert "'pending' is none of: unresolved, retryIssued, resolved, archived" in result.stderr
    assert "Value error" not in result.stderr


def test_a_group_may_be_named_by_its_first_characters(cli: CommandLine) -> None:
    wanted, _ = cli.api.receive(failure(queue="a"), failure(queue="b"))
    groups = cli.api.get("recoverability/groups/Endpoint Address", classifierFilter="a")

    assert whole_ids(cli, "--group", groups[0]["id"][:8]) == [wanted]


def test_pages_can_be_turned(cli: CommandLine) -> None:
    cli.api.receive(*(failure() for _ in range(5)))

    pages = [whole_ids(cli, "--per-page", "2", "--page", str(page)) for page in (1, 2, 3, 4)]

    assert [len(page) for page in pages] == [2, 2, 1, 0]
    assert len({each for page in pages for each in page}) == 5


def test_a_limit_reads_as_many_pages_as_it_takes(cli: CommandLine) -> None:
    cli.api.receive(*(failure() for _ in range(1003)))

    assert len(set(whole_ids(cli, "--limit", "1002"))) == 1002
    assert len(set(whole_ids(cli, "--limit", "5000"))) == 1003


@pytest.mark.parametrize("other", ["--page", "--per-page"])
def test_a_limit_goes_with_no_page(cli: CommandLine, other: str) -> None:
    assert cli.run("errors", "list", "--limit", "2", other, "2").exit_code == 2


def test_a_list_is_one_json_document(cli: CommandLine) -> None:
    cli.api.receive(failure(), failure())

    document = json.loads(cli.run("errors", "list", "--json", "--limit", "1").stdout)

    assert document["total"] == 2
    assert document["items"] == cli.api.get(
        "errors", sort="time_of_failure", direction="desc", per_page=1
    )


def test_the_options_know_what_the_service_knows() -> None:
    assert list(SortKey) == list(ApiSort)
    statuses = [status.replace("_", "") for status in FailedMessageStatus]
    assert [status.lower() for status in Status] == [*statuses, "dead"]


def test_one_message_is_shown_with_all_that_is_known(cli: CommandLine) -> None:
    made = failure(queue="orders", headers={"Shop.Tenant": "north"}, stack_trace="one\n  two")
    (unique_id,) = cli.api.receive(made)

    lines = cli.lines("errors", "show", unique_id[:8])

    assert lines[0].split() == ["id", unique_id]
    assert "exception type  Shop.OutOfStock" in lines
    assert lines[lines.index("exception message:") + 1] == "nothing left"
    assert lines[lines.index("stack trace:") + 1 :][:2] == ["one", "  two"]
    assert lines[lines.index("headers:") + 1].split() == ["Shop.Tenant", "north"]
    assert lines[lines.index("groups:") + 1].split() == ["id", "classifier", "title"]


SAYS_NOTHING = {"exception_type": None, "exception_message": None, "stack_trace": None}


def test_a_failure_without_a_reason_says_so_as_its_group_does(cli: CommandLine) -> None:
    (unique_id,) = cli.api.receive(failure(**SAYS_NOTHING))

    lines = cli.lines("errors", "show", unique_id)

    assert cli.lines("errors", "list")[1].endswith("  no reason given")
    assert "error          no reason given" in lines
    attempt, *_ = lines[lines.index("attempts:") + 2 :]
    assert attempt.endswith("  no reason given")
    assert "no reason given: " in cli.lines("groups")[1]


def test_each_attempt_says_on_which_machine_it_was(cli: CommandLine) -> None:
    first = failure(host="box-1", headers={})
    again = {"message_id": first.message_id, "body": first.body, "headers": {}}
    (unique_id,) = cli.api.receive(first)
    cli.api.receive(failure(host="box-2", **again))

    lines = cli.lines("errors", "show", unique_id)

    header, *attempts = lines[lines.index("attempts:") + 1 :][:3]
    assert "host" in header
    assert [each[header.index("host") :].split()[0] for each in attempts] == ["box-1", "box-2"]


def test_an_attempt_has_the_reason_that_its_failure_gives(cli: CommandLine) -> None:
    (unique_id,) = cli.api.receive(failure(**SAYS_NOTHING, failure_reason="rejected"))

    lines = cli.lines("errors", "show", unique_id)

    assert lines[lines.index("attempts:") + 2].endswith("  rejected")
    assert "no reason given" not in "".join(lines)


def test_a_failure_without_a_time_says_that_it_shows_when_it_came(cli: CommandLine) -> None:
    with_time, without = cli.api.receive(failure(), failure(time_of_failure=None))

    told = "(when it was received: the failure gives no time)"
    assert told in "".join(cli.lines("errors", "show", without))
    assert told not in "".join(cli.lines("errors", "show", with_time))


def test_a_message_without_a_message_id_says_what_follows(cli: CommandLine) -> None:
    record_received(cli.api.db, [failure(message_id=None)], instance="test")
    (unique_id,) = cli.api.ids()

    (line,) = [each for each in cli.lines("errors", "show", unique_id) if "message id" in each]

    assert "none; that it fails again is recognised only if its consumer keeps" in line


def test_a_retry_under_way_is_told(cli: CommandLine) -> None:
    (unique_id,) = cli.bench.fail()
    cli.bench.ask_all()
    cli.bench.work()

    (line,) = (each for each in cli.lines("errors", "show", unique_id) if "retry " in each)

    assert "forwarded at" in line
    assert "no outcome yet; operation" in line


def test_one_message_is_the_document_of_the_service(cli: CommandLine) -> None:
    (unique_id,) = cli.api.receive(failure())

    document = json.loads(cli.run("errors", "show", unique_id, "--json").stdout)

    assert document == cli.api.get(f"errors/{unique_id}")


@pytest.mark.parametrize("command", ["show", "body"])
@pytest.mark.parametrize("text", ["12345678", "12345678-1234-1234-1234-123456789abc"])
def test_what_nobody_knows_ends_with_1(cli: CommandLine, command: str, text: str) -> None:
    result = cli.run("errors", command, text)

    assert (result.exit_code, result.stdout) == (1, "")
    assert text in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("text", ["1234567", "no-id-at-all"])
def test_what_is_no_id_of_anything_is_looked_for_and_not_found(cli: CommandLine, text: str) -> None:
    cli.api.receive(failure())

    result = cli.run("errors", "show", text)

    assert result.exit_code == 1
    assert f"No failed message has the message id {text}" in result.stderr


def test_an_empty_id_ends_with_2(cli: CommandLine) -> None:
    cli.api.receive(failure())

    assert cli.run("errors", "show", "").exit_code == 2


@pytest.mark.parametrize("message_id", ["order-42", "12345678-1234-1234-1234-123456789abc"])
def test_one_is_shown_by_its_message_id(cli: CommandLine, message_id: str) -> None:
    unique_id, _other = cli.api.receive(failure(message_id=message_id), failure())

    assert unique_id in cli.run("errors", "show", message_id).stdout


def test_several_with_the_message_id_are_named(cli: CommandLine) -> None:
    twins = [failure(message_id="order-42", endpoint=each) for each in ("Sales", "Billing")]
    unique_ids = cli.api.receive(*twins)

    result = cli.run("errors", "show", "order-42")

    assert result.exit_code == 1
    assert "2 failed messages have the message id order-42" in result.stderr
    assert all(each in result.stderr for each in unique_ids)


def test_a_list_by_message_id(cli: CommandLine) -> None:
    unique_id, _other = cli.api.receive(failure(message_id="order-42"), failure())

    assert whole_ids(cli, "--message-id", "order-42") == [unique_id]


def test_messages_without_a_type_are_listed_with_their_message_ids(cli: CommandLine) -> None:
    cli.api.receive(failure(message_id="order-42", message_type=None))

    header, line = cli.lines("errors", "list")

    assert "message id" in header
    assert "order-42" in line


def test_a_list_of_both_kinds_names_each(cli: CommandLine) -> None:
    cli.api.receive(failure(message_id="order-42", message_type=None), failure())

    header, *lines = cli.lines("errors", "list")

    assert "message type or id" in header
    assert any("order-42" in line for line in lines)
    assert any("Shop.PlaceOrder" in line for line in lines)


def test_an_id_may_be_written_large(cli: CommandLine) -> None:
    (unique_id,) = cli.api.receive(failure())

    assert unique_id in cli.run("errors", "show", unique_id[:12].upper()).stdout
    assert unique_id in cli.run("errors", "show", unique_id.upper()).stdout


def test_a_short_id_of_two_messages_names_both(cli: CommandLine) -> None:
    cli.api.receive(*(failure(stamped_id=twin) for twin in TWINS))

    result = cli.run("errors", "show", "11111111")

    assert result.exit_code == 1
    assert [line.strip() for line in result.stderr.splitlines()[1:]] == list(TWINS)


def test_more_of_an_id_tells_two_messages_apart(cli: CommandLine) -> None:
    cli.api.receive(*(failure(stamped_id=twin) for twin in TWINS))

    assert TWINS[1] in cli.run("errors", "show", TWINS[1]).stdout


def test_a_body_comes_out_byte_for_byte(cli: CommandLine) -> None:
    body = bytes(range(256)) + b"\r\n\n"
    (unique_id,) = cli.api.receive(failure(body=body))

    assert cli.run("errors", "body", unique_id[:8]).stdout_bytes == body


def test_a_packed_body_is_named_and_unpacked_for_who_asks(cli: CommandLine) -> None:
    packed = gzip.compress(b"order 4711")
    (key,) = cli.api.receive(failure(body=packed, headers={"content-encoding": "gzip"}))

    shown = cli.run("errors", "show", key).stdout
    unpacked = cli.run("errors", "body", key, "--unpacked")

    assert f"gzip: `retrier errors body {key[:8]} --unpacked`" in shown
    assert cli.run("errors", "body", key).stdout_bytes == packed
    assert unpacked.stdout == "order 4711"
    assert unpacked.stderr.startswith("Unpacked from gzip: ")


def test_an_empty_body_is_nothing(cli: CommandLine) -> None:
    (unique_id,) = cli.api.receive(failure(body=b""))

    result = cli.run("errors", "body", unique_id)

    assert (result.exit_code, result.stdout_bytes) == (0, b"")


def test_a_body_may_be_asked_for_by_message_id(cli: CommandLine) -> None:
    cli.api.receive(failure(message_id="order 7/a", body=b"seven"))

    assert cli.run("errors", "body", "order 7/a").stdout == "seven"


def test_a_body_can_be_written_to_a_file(cli: CommandLine, tmp_path: Path) -> None:
    (unique_id,) = cli.api.receive(failure(body=b"\x00\xff"))
    file = tmp_path / "body"

    result = cli.run("errors", "body", unique_id, "--output", str(file))

    assert (result.exit_code, result.stdout) == (0, "")
    assert file.read_bytes() == b"\x00\xff"


def test_a_file_that_cannot_be_written_ends_with_2(cli: CommandLine, tmp_path: Path) -> None:
    (unique_id,) = cli.api.receive(failure())

    result = cli.run("errors", "body", unique_id, "--output", str(tmp_path))

    assert result.exit_code == 2
    assert "--output: cannot write" in result.stderr


@pytest.mark.parametrize(
    ("body", "encoding", "shown"), [(b"caf\xc3\xa9", "utf-8", "café"), (b"\xff", "base64", "/w==")]
)
def test_a_body_in_json_says_how_it_is_written(
    cli: CommandLine, body: bytes, encoding: str, shown: str
) -> None:
    (unique_id,) = cli.api.receive(failure(body=body))

    document = json.loads(cli.run("errors", "body", unique_id, "--json").stdout)

    assert UUID(document.pop("id")) == UUID(unique_id)
    assert document == {
        "content_type": "application/json",
        "size": len(body),
        "encoding": encoding,
        "body": shown,
    }


def test_a_body_can_do_nothing_to_a_terminal(cli: CommandLine) -> None:
    (unique_id,) = cli.api.receive(failure(body=b"one\n\x1b]0;title\x07two"))
    cli.terminal = 80

    assert cli.run("errors", "body", unique_id).stdout == "one\n\\x1b]0;title\\x07two\n"


def test_a_body_that_is_no_text_is_not_printed_to_a_terminal(cli: CommandLine) -> None:
    (unique_id,) = cli.api.receive(failure(body=b"\xff\xfe"))
    cli.terminal = 80

    result = cli.run("errors", "body", unique_id)

    assert (result.exit_code, result.stdout) == (1, "")
    assert "--output" in result.stderr


def test_failed_messages_are_listed_by_every_condition(cli: CommandLine) -> None:
    wanted, *_ = cli.api.receive(
        failure(queue="orders", failure_reason="rejected", exception_type="A"),
        failure(queue="bills", failure_reason="rejected", exception_type="A"),
        failure(queue="orders", failure_reason="expired", exception_type="A"),
    )

    listed = cli.lines(
        *("errors", "list", "--ids", "--queue", "orders", "--reason", "rejected"),
        *("--failed-from", "2026-05-04", "--failed-to", "2026-05-05", "--text", "NOTHING"),
        *("--attempts-at-least", "1", "--disposition", "manual", "--status", "unresolved"),
    )

    assert listed == [wanted]
    assert cli.lines("errors", "list", "--ids", "--archived-by", wanted) == []


def test_what_failed_lately_is_listed_and_the_moment_is_said(cli: CommandLine) -> None:
    now = SystemClock().now()
    _, late = cli.api.receive(
        failure(time_of_failure=now - timedelta(hours=3)),
        failure(time_of_failure=now - timedelta(hours=1)),
    )

    result = cli.run("errors", "list", "--ids", "--failed-from", "2h")

    assert result.stdout.split() == [late]
    assert result.stderr.startswith("2h is 20")
    wrong = cli.run("errors", "list", "--failed-from", "2 hours")
    assert wrong.exit_code == 2
    assert "did you mean 2h?" in " ".join(wrong.stderr.split())


@pytest.mark.parametrize("option", ["--queue", "--text", "--reason"])
def test_an_empty_condition_is_none(cli: CommandLine, option: str) -> None:
    # A script that found no name must not be shown what it did not ask for.
    assert cli.run("errors", "list", option, "").exit_code == 2


@pytest.mark.parametrize(
    ("stated", "shown"),
    [
        ({"stream_position": read_position(12)}, "12"),
        ({"stream_position_unread": "third"}, "'third' is neither a number nor a time: "),
    ],
    ids=["that can be read", "that cannot be read"],
)
def test_the_place_in_a_stream_that_its_sender_states_is_shown(
    cli: CommandLine, stated: dict[str, object], shown: str
) -> None:
    (unique_id,) = cli.api.receive(failure(stream_id="42", **stated))

    lines = cli.lines("errors", "show", unique_id)

    (line,) = [each for each in lines if each.startswith("place in its stream")]
    assert line.removeprefix("place in its stream").strip(" :").startswith(shown)


def test_attempts_that_are_not_shown_are_told(cli: CommandLine) -> None:
    first = failure(queue="orders")
    (key,) = cli.api.receive(first)
    for number in range(1, 60):
        failed_at = FAILED_AT + timedelta(minutes=number)
        same = {"message_id": first.message_id, "body": first.body}
        cli.api.receive(failure(queue="orders", time_of_failure=failed_at, **same))

    result = cli.run("errors", "show", key)

    whole = f"retrier errors history {key[:8]} --attempts"
    assert f"the newest 50 attempts; all: `{whole}`" in result.stderr
