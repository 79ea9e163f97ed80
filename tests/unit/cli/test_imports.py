"""retrier imports: lists, one of them, read again, sent back, deleted; and where they are told of."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from retrier.domain.failed_imports import UNKNOWN_MESSAGE, UNREADABLE
from retrier.domain.failed_message import FailedImport
from retrier.domain.wire import Refused, Unknown
from retrier.ingestion.parsing import QueueMapping
from tests.support.amqp_bytes import header, properties, string
from tests.support.command_line import CommandLine
from tests.support.factories import ERROR_QUEUE, failed_import, failure
from tests.support.raw_messages import raw_properties
from tests.support.script import to_queue

POISON = properties(headers=[header("Shop.Tenant", string("north")), b"\x03badZ\x00"])
NOBODY = "12345678-1234-4234-8234-123456789abc"


@pytest.fixture(autouse=True)
def _queue(cli: CommandLine) -> None:
    cli.api.transport.broker.declare("orders")


def keep(cli: CommandLine, *imports: FailedImport) -> list[str]:
    """Let imports come; return the ids of all."""
    cli.api.receive(*imports)
    return cli.api.ids("imports")


def keep_one(cli: CommandLine, **changes: Any) -> str:
    (import_id,) = keep(cli, failed_import(**changes))
    return import_id


def change_settings(cli: CommandLine) -> None:
    cli.api.mappings[ERROR_QUEUE] = QueueMapping(queue=ERROR_QUEUE, destination="orders")


def left(cli: CommandLine) -> list[str]:
    return cli.api.ids("imports")


class TestLists:
    def test_have_a_line_for_each(self, cli: CommandLine) -> None:
        import_id = keep_one(cli, raw=b"\0\0", body=b"12345", reason="it has no queue")

        (title, line) = cli.lines("imports", "list")

        assert title.split("  ")[0] == "id"
        assert line.startswith(f"{import_id[:8]}  kept   2026-05-04 12:00            7  error ")
        assert line.endswith("it has no queue")

    def test_say_how_many_there_are(self, cli: CommandLine) -> None:
        keep(cli, *(failed_import() for _ in range(3)))

        result = cli.run("imports", "list", "--limit", "2")

        assert result.stderr.splitlines()[0] == "2 of 3 failed imports"

    @pytest.mark.parametrize(
        ("reason", "told"),
        [
            ("the header x is missing or empty", ("send", "retry", "delete")),
            (UNKNOWN_MESSAGE, ("delete",)),
            (f"{UNREADABLE}: no field type 'Z'", ("send", "delete")),
        ],
    )
    def test_say_what_can_be_done(
        self, cli: CommandLine, reason: str, told: tuple[str, ...]
    ) -> None:
        import_id = keep_one(cli, reason=reason)

        for words in (("list",), ("show", import_id)):
            remarks = cli.run("imports", *words).stderr

            named = [
                each
                for each in ("send", "retry", "delete")
                if f"`retrier imports {each} " in remarks
            ]
            assert tuple(named) == told
            assert f"delete {import_id[:8]}`" in remarks

    def test_say_it_once_for_several_of_a_kind(self, cli: CommandLine) -> None:
        keep(cli, *(failed_import(reason=each) for each in ("a", "b", UNREADABLE)))

        remarks = cli.run("imports", "list").stderr.splitlines()

        assert len(remarks) == 3
        assert "`retrier imports retry ID --destination QUEUE`" in remarks[1]

    def test_say_what_can_be_done_with_one_in_doubt(self, cli: CommandLine) -> None:
        import_id = keep_one(cli)
        send_into_doubt(cli, import_id)

        remarks = cli.run("imports", "show", import_id).stderr

        assert f"`retrier imports send {import_id[:8]} --to QUEUE --again`" in remarks
        assert "--destination" not in remarks

    def test_can_be_empty(self, cli: CommandLine) -> None:
        result = cli.run("imports", "list")

        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr == "no failed import: everything could be read\n"

    def test_can_be_of_one_error_queue_and_ids_only(self, cli: CommandLine) -> None:
        keep(cli, failed_import(error_queue="a"), failed_import(error_queue="b"))

        (whole,) = cli.lines("imports", "list", "--queue", "b", "--ids")

        assert cli.api.get(f"imports/{whole}")["error_queue"] == "b"

    def test_can_have_the_oldest_first(self, cli: CommandLine) -> None:
        keep(cli, *(failed_import() for _ in range(3)))

        newest = cli.lines("imports", "list", "--ids")
        oldest = cli.lines("imports", "list", "--ids", "--ascending")

        assert oldest == newest[::-1]

    def test_are_one_json_document(self, cli: CommandLine) -> None:
        keep(cli, failed_import(), failed_import())

        document = json.loads(cli.run("imports", "list", "--json", "--per-page", "1").stdout)

        assert (document["total"], len(document["items"])) == (2, 1)
        assert set(document["items"][0]) >= {"id", "error_queue", "reason", "state"}

    @pytest.mark.parametrize("words", [("groups",), ("errors", "list")], ids=" ".join)
    def test_of_failures_say_that_there_are_imports(
        self, cli: CommandLine, words: tuple[str, ...]
    ) -> None:
        keep(cli, *(failed_import() for _ in range(12)))

        result = cli.run(*words)

        told = "12 messages could not be read: `retrier imports list`"
        assert (result.exit_code, result.stderr.splitlines()[-1]) == (0, told)

    @pytest.mark.parametrize("words", [("groups",), ("errors", "list")], ids=" ".join)
    def test_of_failures_say_so_beside_others_and_never_without_any(
        self, cli: CommandLine, words: tuple[str, ...]
    ) -> None:
        cli.api.receive(failure())
        before = cli.run(*words).stderr
        keep(cli, failed_import())

        after = cli.run(*words).stderr

        assert "could not be read" not in before
        assert after == before + "1 message could not be read: `retrier imports list`\n"

    def test_for_a_pipe_have_no_such_remark(self, cli: CommandLine) -> None:
        keep(cli, failed_import())

        results = [cli.run("errors", "list", each) for each in ("--ids", "--json")]

        assert [each.stderr for each in results] == ["", ""]


class TestOneImport:
    def test_is_shown_with_its_headers_and_its_body(self, cli: CommandLine) -> None:
        raw = raw_properties({"Shop.Tenant": "north"}, message_id="9")
        import_id = keep_one(cli, raw=raw, body=b"order 7\n", reason="it has no queue")

        lines = cli.lines("imports", "show", import_id[:8])

        assert f"id           {import_id}" in lines
        assert "state        kept" in lines
        assert "reason       it has no queue" in lines
        assert lines[-3:] == ["", "body:", "order 7"]
        assert "message_id  9" in lines
        assert "Shop.Tenant  north" in lines

    def test_that_cannot_be_read_is_shown_as_bytes(self, cli: CommandLine) -> None:
        import_id = keep_one(cli, raw=POISON, body=b"\xff\x00order")

        text = "\n".join(cli.lines("imports", "show", import_id))

        assert "not readable: no field type 'Z'" in text
        assert "Shop.Tenant  north" in text
        assert f"properties as they came:\n0000  {POISON[:16].hex(' ')}  " in text
        assert f"0000  {'ff 00 6f 72 64 65 72':<47}  ..order" in text

    def test_with_a_large_body_shows_its_beginning(self, cli: CommandLine) -> None:
        text_id = keep_one(cli, body=b"x" * 20_000_000)
        bytes_id = next(
            each for each in keep(cli, failed_import(body=b"\xff" * 1000)) if each != text_id
        )

        text = cli.run("imports", "show", text_id).stdout
        dump = cli.run("imports", "show", bytes_id).stdout

        assert "body, the beginning of 20,000,000 bytes:\n" + "x" * 2000 + "\n" in text
        assert "body, the first 256 of 1,000 bytes:\n" in dump
        assert len(text) < 3000

    def test_can_be_written_to_a_file_byte_for_byte(self, cli: CommandLine, tmp_path: Path) -> None:
        body = bytes(range(256)) * 400
        import_id = keep_one(cli, body=body)
        file = tmp_path / "body.bin"

        result = cli.run("imports", "show", import_id, "--output", str(file))

        assert (result.exit_code, file.read_bytes()) == (0, body)
        assert f"102,400 bytes written to {file}" in result.stderr

    def test_does_nothing_to_the_terminal(self, cli: CommandLine) -> None:
        raw = raw_properties({"\x1b[2J": "\x1b]0;\u202e"})
        import_id = keep_one(cli, raw=raw, body=b"\x1b[31mred", reason="\x1b[5m")

        output = cli.run("imports", "show", import_id).stdout + cli.run("imports", "list").stdout

        assert "\x1b" not in output
        assert "\u202e" not in output

    def test_in_doubt_says_where_it_may_be(self, cli: CommandLine) -> None:
        import_id = keep_one(cli)
        send_into_doubt(cli, import_id)

        (line,) = [
            each for each in cli.lines("imports", "show", import_id) if each.startswith("state")
        ]

        assert "in doubt: perhaps sent to orders, since " in line
        assert ", by ada (" in line
        assert "in doubt" in cli.lines("imports", "list")[1]

    def test_is_one_json_document(self, cli: CommandLine) -> None:
        import_id = keep_one(cli)

        document = json.loads(cli.run("imports", "show", import_id, "--json").stdout)

        assert document == cli.api.get(f"imports/{import_id}")

    def test_may_be_unknown(self, cli: CommandLine) -> None:
        results = [cli.run("imports", "show", each) for each in (NOBODY, NOBODY[:8], "no id")]

        assert [each.exit_code for each in results] == [1, 1, 2]

    def test_that_is_gone_says_what_became_of_it(self, cli: CommandLine) -> None:
        import_id = keep_one(cli)
        cli.run("imports", "delete", import_id, "--yes")

        results = [cli.run("imports", "show", each) for each in (import_id, import_id[:8])]

        assert [each.exit_code for each in results] == [1, 1]
        assert all(f"{import_id} from {ERROR_QUEUE} was deleted" in each.stderr for each in results)

    def test_is_told_to_who_takes_it_for_a_failed_message(self, cli: CommandLine) -> None:
        import_id = keep_one(cli)

        results = [
            cli.run("errors", "show", import_id),
            cli.run("errors", "show", import_id[:8]),
            cli.run("retry", import_id[:8]),
            cli.run("retry", import_id),
        ]

        assert [each.exit_code for each in results] == [1, 1, 1, 1]
        assert all("failed import" in each.stderr for each in results)
        told = [each.stderr for each in results]
        assert all("`retrier imports show" in each for each in told), told


def send_into_doubt(cli: CommandLine, import_id: str) -> None:
    """Let the answer of the broker be lost."""
    cli.api.transport.cue(Unknown("reset"), when=to_queue("orders"))
    result = cli.run("imports", "send", import_id, "--to", "orders")
    assert result.exit_code == 3, result.output


class TestReadingAgain:
    def test_says_what_became_of_them(self, cli: CommandLine) -> None:
        keep(cli, failed_import(body=b"1"), failed_import(body=b"2"))
        change_settings(cli)

        result = cli.run("imports", "retry", "--all")

        assert result.exit_code == 0
        assert result.stdout == "2 of 2 failed imports understood: 2 failed messages\n"
        assert left(cli) == []

    def test_ends_with_1_and_says_why_what_is_not_understood_stays(self, cli: CommandLine) -> None:
        import_id = keep_one(cli)

        result = cli.run("imports", "retry", import_id[:8])

        assert result.exit_code == 1
        assert result.stdout.startswith("0 of 1 failed import understood\n")
        assert "1  none of the headers that say where it failed is there" in result.stdout
        assert "`retrier imports retry ID --destination QUEUE`" in result.stderr
        assert left(cli) == [import_id]

    def test_can_be_for_one_error_queue(self, cli: CommandLine) -> None:
        keep(cli, failed_import(), failed_import(error_queue="other"))
        change_settings(cli)

        result = cli.run("imports", "retry", "--queue", ERROR_QUEUE)

        assert (result.exit_code, len(left(cli))) == (0, 1)

    @pytest.mark.parametrize("how", ["--all", "--queue", "id"])
    def test_can_name_where_their_retries_go(self, cli: CommandLine, how: str) -> None:
        import_id = keep_one(cli)
        target = {"--all": ["--all"], "--queue": ["--queue", ERROR_QUEUE], "id": [import_id[:8]]}

        result = cli.run("imports", "retry", *target[how], "--destination", "orders")

        assert (result.exit_code, left(cli)) == (0, [])
        assert [each["queue_address"] for each in cli.api.get("errors")] == ["orders"]

    def test_takes_ids_from_standard_input(self, cli: CommandLine) -> None:
        ids = keep(cli, failed_import(body=b"1"), failed_import(body=b"2"))
        change_settings(cli)

        result = cli.run("imports", "retry", "-", stdin="\n".join([*ids, NOBODY]))

        assert result.exit_code == 1
        assert result.stdout.startswith("2 of 3 failed imports understood: 2 failed messages\n")
        assert f"No failed import has the id {NOBODY}" in result.stdout

    def test_says_who_asked(self, cli: CommandLine) -> None:
        keep_one(cli)
        change_settings(cli)

        cli.run("imports", "retry", "--all", "--user", "grace")

        assert cli.api.get("eventlogitems")[0]["who"].startswith("grace (")

    @pytest.mark.parametrize(
        "words",
        [
            (),
            ("--all", "--queue", "a"),
            (NOBODY, "--all"),
            ("--queue", ""),
            ("--all", "--destination", " "),
        ],
    )
    def test_wants_one_kind_of_target(self, cli: CommandLine, words: tuple[str, ...]) -> None:
        assert cli.run("imports", "retry", *words).exit_code == 2

    def test_is_one_json_document(self, cli: CommandLine) -> None:
        (one, other) = keep(cli, failed_import(), failed_import(raw=POISON))
        change_settings(cli)

        by_name = json.loads(cli.run("imports", "retry", one, other, "--json").stdout)

        assert (by_name["reimported"], by_name["failed_message"]) == (1, 1)
        assert [each["count"] for each in by_name["kept"]] == [1]


class TestSendingBack:
    def test_sends_each_as_it_came(self, cli: CommandLine) -> None:
        ids = keep(cli, failed_import(POISON, b"1"), failed_import(b"\0\0", b"2"))

        result = cli.run("imports", "send", *ids, "--to", "orders")

        assert (result.exit_code, result.stdout) == (0, "2 of 2 failed imports sent to orders\n")
        sent = {(each.raw, each.body) for each in cli.api.transport.broker.holds("orders")}
        assert sent == {(POISON, b"1"), (b"\x10\0\x02", b"2")}  # that is persistent
        assert left(cli) == []

    def test_says_why_one_stays_and_sends_the_others(self, cli: CommandLine) -> None:
        guilty, other = keep(cli, failed_import(body=b"1"), failed_import(body=b"2"))
        cli.api.transport.cue(Refused("full"), when=to_queue("orders"))

        result = cli.run("imports", "send", guilty, other, "--to", "orders")

        assert result.exit_code == 1
        assert result.stdout.startswith("1 of 2 failed imports sent to orders\n")
        assert f"{guilty[:8]}  It was not sent and is kept: the broker refused it: full." in (
            result.stdout
        )
        assert left(cli) == [guilty]

    def test_to_a_queue_that_is_not_there_says_so(self, cli: CommandLine) -> None:
        import_id = keep_one(cli)

        result = cli.run("imports", "send", import_id, "--to", "nowhere")

        assert result.exit_code == 1
        assert "the queue nowhere does not exist" in result.stdout

    def test_ends_with_3_when_nobody_knows_and_leaves_the_rest(self, cli: CommandLine) -> None:
        import_id, other = keep(cli, failed_import(body=b"1"), failed_import(body=b"2"))
        cli.api.transport.cue(Unknown("reset"), when=to_queue("orders"))

        result = cli.run("imports", "send", import_id, other, "--to", "orders")

        assert result.exit_code == 3
        assert "Nobody knows whether orders has it: reset." in result.stderr
        assert "send it once more with `again`" in result.stderr
        assert {each["id"]: each["state"] for each in cli.api.get("imports")} == {
            import_id: "inDoubt",
            other: "kept",
        }

    def test_ends_with_3_without_a_broker(self, cli: CommandLine) -> None:
        import_id = keep_one(cli)
        cli.api.transport.go_down("connection refused")

        result = cli.run("imports", "send", import_id, "--to", "orders")

        assert (result.exit_code, left(cli)) == (3, [import_id])
        assert "connection refused" in result.stderr

    def test_of_one_in_doubt_wants_to_be_told_so(self, cli: CommandLine) -> None:
        import_id = keep_one(cli)
        send_into_doubt(cli, import_id)

        result = cli.run("imports", "send", import_id, "--to", "orders", "--again")

        # It was stamped just now: whoever did that may still be about to send it.
        assert result.exit_code == 1
        assert "a minute after it began" in result.stdout

    def test_when_the_connection_breaks_says_to_look_first(self, cli: CommandLine) -> None:
        import_id = keep_one(cli)

        def break_off(request: httpx.Request) -> httpx.Response:
            raise httpx.ReadError("reset", request=request)

        cli.answer = break_off

        result = cli.run("imports", "send", import_id, "--to", "orders")

        assert result.exit_code == 3
        assert "look before you ask again" in result.stderr

    def test_is_one_json_document(self, cli: CommandLine) -> None:
        import_id = keep_one(cli)

        result = cli.run("imports", "send", import_id, "--to", "orders", "--json")

        assert json.loads(result.stdout) == {
            "sent_to": "orders",
            "sent": [import_id],
            "refused": [],
        }

    def test_of_a_confirmation_without_a_body_is_refused_unless_it_is_asked_for(
        self, cli: CommandLine
    ) -> None:
        import_id = keep_one(cli, reason=UNKNOWN_MESSAGE, body=b"{}")

        refused = cli.run("imports", "send", import_id, "--to", "orders")
        kept = left(cli)
        sent = cli.run("imports", "send", import_id, "--to", "orders", "--confirmation")

        assert (refused.exit_code, kept) == (1, [import_id])
        assert "delete it" in refused.stdout
        assert (sent.exit_code, left(cli)) == (0, [])

    @pytest.mark.parametrize(
        ("reason", "body"), [(UNKNOWN_MESSAGE, b"an order"), (UNREADABLE, b""), (UNREADABLE, b"{}")]
    )
    def test_takes_what_may_be_a_message(self, cli: CommandLine, reason: str, body: bytes) -> None:
        import_id = keep_one(cli, reason=reason, body=body)

        assert cli.run("imports", "send", import_id, "--to", "orders").exit_code == 0

    def test_wants_a_queue(self, cli: CommandLine) -> None:
        assert cli.run("imports", "send", NOBODY).exit_code == 2


class TestDeleting:
    def test_asks_before(self, cli: CommandLine) -> None:
        ids = keep(cli, failed_import(), failed_import())
        cli.agrees = True

        result = cli.run("imports", "delete", *ids)

        assert cli.questions == ["Delete 2 failed imports for good?"]
        assert (result.exit_code, result.stdout) == (0, "2 of 2 failed imports deleted\n")
        assert left(cli) == []

    @pytest.mark.parametrize(
        ("agrees", "advice"),
        [(False, ""), (None, " There is nobody to answer: add --yes to go on unasked.")],
    )
    def test_deletes_nothing_without_a_yes(
        self, cli: CommandLine, *, agrees: bool | None, advice: str
    ) -> None:
        import_id = keep_one(cli)
        cli.agrees = agrees

        result = cli.run("imports", "delete", import_id)

        assert (result.exit_code, result.stderr) == (1, f"Nothing was deleted.{advice}\n")
        assert left(cli) == [import_id]

    def test_asks_nobody_who_has_said_yes(self, cli: CommandLine) -> None:
        import_id = keep_one(cli)

        result = cli.run("imports", "delete", "--yes", "-", stdin=import_id)

        assert (result.exit_code, cli.questions, left(cli)) == (0, [], [])

    def test_says_which_are_unknown(self, cli: CommandLine) -> None:
        import_id = keep_one(cli)

        result = cli.run("imports", "delete", import_id, NOBODY, "--yes", "--json")

        document = json.loads(result.stdout)
        assert (result.exit_code, document["deleted"]) == (1, [import_id])
        assert [each["id"] for each in document["refused"]] == [NOBODY]

    def test_of_nothing_says_so(self, cli: CommandLine) -> None:
        assert cli.run("imports", "delete", "--yes", "-", stdin="").exit_code == 1
