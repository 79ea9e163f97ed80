"""retrier retry: what it asks for, how it is followed, and how it ends."""

import json
from uuid import uuid4

import httpx
import pytest

from retrier.domain.wire import Refused
from retrier.http.parts import MissingQueues
from tests.support.bench import QUEUE
from tests.support.command_line import CommandLine
from tests.support.factories import ERROR_QUEUE, failure
from tests.support.script import to_queue
from tests.support.streams import fail_in_stream


def group_of(cli: CommandLine, title: str) -> str:
    groups = cli.api.get("recoverability/groups/Endpoint Address", classifierFilter=title)
    return str(groups[0]["id"])


@pytest.mark.parametrize("length", [8, 20, 36])
def test_one_message_is_retried_by_its_id(cli: CommandLine, length: int) -> None:
    unique_id, _ = cli.api.receive(failure(), failure())

    assert cli.run("retry", unique_id[:length]).exit_code == 0

    (operation,) = cli.asked()
    assert (operation["retry_type"], operation["total"]) == ("singleMessage", 1)
    assert operation["originator"] == f"retry of message {unique_id}"


def test_several_messages_are_one_operation(cli: CommandLine) -> None:
    first, second, _ = cli.api.receive(failure(), failure(), failure())

    cli.run("retry", first[:8], second, first)

    (operation,) = cli.asked()
    assert (operation["retry_type"], operation["total"]) == ("multipleMessages", 2)


def test_ids_come_from_standard_input(cli: CommandLine) -> None:
    first, second = cli.api.receive(failure(), failure())

    result = cli.run("retry", "-", stdin=f"{first}\n\n  {second[:8]}\n")

    assert result.exit_code == 0
    assert [operation["total"] for operation in cli.asked()] == [2]


def test_a_line_of_standard_input_is_one_message_id_though_it_holds_blanks(
    cli: CommandLine,
) -> None:
    named, _, _ = cli.api.receive(*(failure(message_id=each) for each in ("order 7", "order", "7")))

    assert cli.run("retry", "-", stdin="order 7\r\n").exit_code == 0
    assert [each["originator"] for each in cli.asked()] == [f"retry of message {named}"]


def test_a_line_of_several_ids_names_all_of_them(cli: CommandLine) -> None:
    first, second = cli.api.receive(failure(), failure())

    assert cli.run("retry", "-", stdin=f"{first} {second[:8]}\n").exit_code == 0
    assert [operation["total"] for operation in cli.asked()] == [2]


@pytest.mark.parametrize(
    "words",
    [["retry"], ["retry", "--dry-run"], ["archive"], ["errors", "list"], ["pending", "list"]],
)
def test_a_condition_that_stands_twice_is_refused(cli: CommandLine, words: list[str]) -> None:
    """The last one would count alone, and the command would be about other messages."""
    result = cli.run(*words, "--queue", "orders", "--queue=bills")

    assert (result.exit_code, cli.requests) == (2, [])
    assert "--queue stands there 2 times" in result.stderr


def test_an_option_of_several_values_may_stand_twice(cli: CommandLine) -> None:
    cli.run("errors", "list", "--status", "resolved", "--status", "archived", "--json", "--json")

    assert cli.requests[0].url.params["status"] == "resolved,archived"


def test_a_list_can_be_handed_on(cli: CommandLine) -> None:
    cli.api.receive(failure(queue="orders"), failure(queue="other"))
    listed = cli.run("errors", "list", "--queue", "orders", "--ids").stdout

    cli.run("retry", "-", stdin=listed)

    assert [operation["total"] for operation in cli.asked()] == [1]


def test_no_id_on_standard_input_ends_with_1(cli: CommandLine) -> None:
    # Given a command before the pipe that failed
    result = cli.run("retry", "-", stdin="\n")

    assert (result.exit_code, result.stdout) == (1, "")
    assert cli.asked() == []


@pytest.mark.parametrize(
    ("option", "field", "kind"),
    [
        ("--queue", "queue", "byQueueAddress"),
        ("--endpoint", "endpoint", "allForEndpoint"),
    ],
)
@pytest.mark.parametrize("name", ["orders", "a/b", "a b?c=#&d", ".", "..", "größe"])
def test_what_failed_somewhere_is_retried(
    cli: CommandLine, option: str, field: str, kind: str, name: str
) -> None:
    cli.api.receive(failure(**{field: name}), failure(**{field: "elsewhere"}))

    assert cli.run("retry", option, name).exit_code == 0

    (operation,) = cli.asked()
    assert (operation["retry_type"], operation["total"]) == (kind, 1)
    assert operation["selection"] == {field: name}


def test_a_name_that_is_no_text_is_no_name_of_anything(cli: CommandLine) -> None:
    # Given a byte that the shell handed over and that is no UTF-8
    cli.api.receive(failure(queue="?"))

    for command in (["retry", "--queue", "\udcff"], ["errors", "list", "--queue", "\udcff"]):
        assert cli.run(*command).exit_code == 0

    assert [operation["total"] for operation in cli.asked()] == [0]


def test_a_name_is_encoded_once(cli: CommandLine) -> None:
    cli.run("errors", "body", "a%2Fb")

    assert [each.url.raw_path for each in cli.requests] == [b"/api/messages/a%252Fb/body"]


def test_a_group_is_retried_by_its_first_characters(cli: CommandLine) -> None:
    cli.api.receive(failure(queue="orders"), failure(queue="other"))

    cli.run("retry", "--group", group_of(cli, "orders")[:8])

    (operation,) = cli.asked()
    assert (operation["retry_type"], operation["total"]) == ("failureGroup", 1)


def test_everything_is_retried(cli: CommandLine) -> None:
    cli.api.receive(failure(), failure())

    cli.run("retry", "--all")

    assert [(each["retry_type"], each["total"]) for each in cli.asked()] == [("all", 2)]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--all", "--queue", "orders"],
        ["12345678", "--all"],
        ["12345678", "--queue", "orders"],
        ["--queue", ""],
        ["--endpoint", ""],
        ["--group", ""],
        [""],
        ["--group", "orders"],
        ["--all", "--idempotency-key", "schlüssel"],
        ["--all", "--idempotency-key", ""],
        ["--exception-type", ""],
        ["--failed-from", "yesterday"],
        ["--attempts-at-least", "0"],
        ["--disposition", "held"],
        ["--all", "--limit", "0"],
        ["--all", "--rate", "0"],
        ["--all", "--canary-wait", "5s"],
        ["--all", "--canary-limit", "1"],
        ["--all", "--in", "2h", "--not-before", "2026-05-04T00:00:00Z"],
        ["--all", "--not-before", "soon"],
    ],
)
def test_what_is_not_exactly_one_kind_asks_for_nothing(
    cli: CommandLine, arguments: list[str]
) -> None:
    result = cli.run("retry", *arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert cli.requests == []


def test_too_many_ids_ask_for_nothing(cli: CommandLine) -> None:
    ids = "\n".join(str(uuid4()) for _ in range(100_001))

    assert cli.run("retry", "-", stdin=ids).exit_code == 2
    assert cli.requests == []


@pytest.mark.parametrize("unknown", ["12345678", "12345678-1234-1234-1234-123456789abc"])
def test_an_unknown_id_asks_for_nothing(cli: CommandLine, unknown: str) -> None:
    assert cli.run("retry", unknown).exit_code == 1

    assert cli.asked() == []


def test_the_operation_is_named(cli: CommandLine) -> None:
    cli.api.receive(failure(), failure())

    result = cli.run("retry", "--all")

    (operation,) = cli.asked()
    short = operation["id"][:8]
    assert result.stdout == f"asked for a retry of 2 messages: operation {short}\n"
    assert f"retrier operations show {short} --watch" in result.stderr


def test_nothing_to_retry_is_told(cli: CommandLine) -> None:
    result = cli.run("retry", "--queue", "nobody")

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "There is nothing to retry: no unresolved message matches.\n"


def test_what_was_accepted_is_one_json_document(cli: CommandLine) -> None:
    cli.api.receive(failure())

    document = json.loads(cli.run("retry", "--all", "--json").stdout)

    assert document == {"operation_id": cli.asked()[0]["id"], "total": 1}


@pytest.mark.parametrize(
    ("arguments", "who"),
    [
        ([], "ada (testclient)"),
        (["--user", "Jörg\n"], "Jörg (testclient)"),
        (["--user", ""], "anonymous (testclient)"),
    ],
)
def test_who_asks_is_told(cli: CommandLine, arguments: list[str], who: str) -> None:
    cli.run("retry", "--all", *arguments)

    assert [operation["requested_by"] for operation in cli.asked()] == [who]


def test_the_same_key_asks_once(cli: CommandLine) -> None:
    for _ in range(2):
        cli.run("retry", "--all", "--idempotency-key", "monday")

    assert len(cli.asked()) == 1


def test_without_a_key_each_command_asks_anew(cli: CommandLine) -> None:
    for _ in range(2):
        cli.run("retry", "--all")

    assert len(cli.asked()) == 2


def test_a_request_lost_on_the_way_says_how_to_repeat_it(cli: CommandLine) -> None:
    def lose(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadError("connection reset", request=request)

    cli.answer = lose

    result = cli.run("retry", "--all", "--idempotency-key", "monday")

    assert result.exit_code == 3
    assert "--idempotency-key monday" in result.stderr


def test_a_dry_run_counts_and_asks_for_nothing(cli: CommandLine) -> None:
    cli.api.receive(*(failure(queue="orders") for _ in range(7)), failure(queue="other"))

    result = cli.run("retry", "--queue", "orders", "--dry-run")

    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "would retry 7 messages: queue orders"
    assert len([line for line in lines if "Shop.OutOfStock" in line]) == 5
    assert cli.asked() == []


@pytest.mark.parametrize("option", ["--endpoint", "--group", "--all"])
def test_a_dry_run_counts_every_kind(cli: CommandLine, option: str) -> None:
    cli.api.receive(failure(endpoint="Sales", queue="orders"))
    names = {"--endpoint": ["Sales"], "--group": [group_of(cli, "orders")[:8]], "--all": []}

    document = json.loads(cli.run("retry", option, *names[option], "--dry-run", "--json").stdout)

    assert (document["dry_run"], document["total"]) == (True, 1)
    assert cli.asked() == []


def test_a_dry_run_tells_which_ids_would_be_skipped(cli: CommandLine) -> None:
    unknown = str(uuid4())
    issued, free = cli.bench.fail(2)
    cli.bench.ask([issued])
    cli.bench.work()

    result = cli.run("retry", issued, free, unknown, "--dry-run", "--json")

    document = json.loads(result.stdout)
    assert (document["total"], document["would_retry"]) == (3, 1)
    reasons = {each["id"]: each["reason"] for each in document["skipped_messages"]}
    assert reasons.keys() == {issued, unknown}
    assert "issued already" in reasons[issued]
    assert f"{unknown}  no failed message" in cli.run("retry", unknown, free, "--dry-run").stdout


def test_a_dry_run_of_many_ids_is_two_requests(cli: CommandLine) -> None:
    ids = "\n".join(str(uuid4()) for _ in range(100_000))

    result = cli.run("retry", "-", "--dry-run", stdin=ids)

    assert result.exit_code == 0
    assert [each.url.path for each in cli.requests] == [
        "/api/errors/ids",
        "/api/operations/preview",
    ]


def test_a_dry_run_says_by_what_and_warns(cli: CommandLine) -> None:
    cli.api.receive(failure(queue="orders"), failure(queue="orders"), failure(queue="bills"))
    cli.run("redirects", "set", "bills", "bills.new")

    result = cli.run("retry", "--all", "--dry-run")

    assert result.stdout.startswith("would retry 3 messages: everything\n")
    assert "by destination" in result.stdout
    assert "bills.new" in result.stdout
    assert "A redirect applies" in result.stderr


def test_a_dry_run_says_where_all_would_go_and_that_it_is_missing(cli: CommandLine) -> None:
    cli.api.receive(failure(queue="orders"), failure(queue="bills"))
    look = ("retry", "--queue", "orders", "--dry-run")

    known = cli.lines(*look)
    cli.api.look_at = lambda queues: MissingQueues(missing=frozenset({"orders"} & set(queues)))
    missing = cli.lines(*look, "--destination", "orders")

    assert known[known.index("by destination:") + 2].split() == ["1", "orders"]
    line = missing[missing.index("by destination:") + 2]
    assert line.split(maxsplit=2)[1:] == ["orders", "does not exist: retries to it fail"]


def test_a_dry_run_says_what_is_not_sent_because_of_where_it_would_go(cli: CommandLine) -> None:
    cli.api.receive(failure(destination=ERROR_QUEUE))

    result = cli.run("retry", "--all", "--dry-run")

    assert ERROR_QUEUE in result.stdout
    assert "takes no retries: they are not sent" in result.stdout
    assert "is an error queue or staging queue of Retrier's own" in result.stderr


def test_what_a_dry_run_counted_is_sent_and_no_more(cli: CommandLine) -> None:
    cli.api.receive(failure(), failure())
    plan = json.loads(cli.run("retry", "--all", "--dry-run", "--json").stdout)["plan"]
    cli.api.receive(failure())

    cli.run("retry", "--all", "--plan", plan)

    assert [operation["total"] for operation in cli.asked()] == [2]


def test_a_plan_of_something_else_asks_for_nothing(cli: CommandLine) -> None:
    plan = json.loads(cli.run("retry", "--all", "--dry-run", "--json").stdout)["plan"]

    result = cli.run("retry", "--queue", "orders", "--plan", plan)

    assert result.exit_code == 1
    assert "another selection" in result.stderr
    assert cli.asked() == []


def test_conditions_are_joined_by_and(cli: CommandLine) -> None:
    cli.api.receive(
        failure(queue="orders", exception_type="A"),
        failure(queue="orders", exception_type="B"),
        failure(queue="bills", exception_type="A"),
    )

    cli.run(
        *("retry", "--queue", "orders", "--exception-type", "A", "--attempts-at-least", "1"),
        *("--failed-from", "2026-05-04", "--failed-to", "2026-05-05T00:00:00Z"),
        *("--text", "SHOP", "--message-type", "Shop.PlaceOrder", "--disposition", "MANUAL"),
    )

    (operation,) = cli.asked()
    assert operation["total"] == 1
    assert operation["selection"] == {
        "queue": "orders",
        "exception_type": "A",
        "message_type": "Shop.PlaceOrder",
        "attempts_at_least": 1,
        "failed_from": "2026-05-04T00:00:00+00:00",
        "failed_to": "2026-05-05T00:00:00.999999+00:00",
        "disposition": "manual",
        "text": "SHOP",
    }


def test_every_term_is_handed_on(cli: CommandLine) -> None:
    cli.run(
        *("retry", "--all", "--limit", "500", "--rate", "50", "--destination", "replay"),
        *("--canary", "20", "--canary-wait", "90s", "--canary-limit", "2", "--in", "2h"),
        *("--why", "the gateway is back"),
    )

    body = json.loads(cli.requests[0].content)
    assert body == {
        "selection": {"all": True},
        "limit": 500,
        "rate": 50,
        "destination": "replay",
        "canary": 20,
        "canary_wait": "90s",
        "canary_limit": 2,
        "in": "2h",
        "why": "the gateway is back",
    }
    (operation,) = cli.asked()
    assert operation["why"] == "the gateway is back"
    shown = cli.run("operations", "show", operation["id"]).stdout
    assert "why " in shown
    assert "the gateway is back" in shown


def test_a_destination_of_our_own_asks_for_nothing(cli: CommandLine) -> None:
    result = cli.run("retry", "--all", "--destination", ERROR_QUEUE)

    assert result.exit_code == 2
    assert "Retries cannot be sent there" in result.stderr


def test_a_retry_is_watched_to_its_end(cli: CommandLine) -> None:
    ids = cli.bench.fail(3)

    result = cli.run("retry", "--all", "--watch")

    assert result.exit_code == 0
    assert result.stdout == "3 of 3 messages sent back; 3 without outcome yet\n"
    assert cli.bench.sent() == ids


def test_each_state_is_told_once_where_there_is_no_terminal(cli: CommandLine) -> None:
    cli.bench.fail(3)
    cli.on_pause = lambda: cli.bench.work(turns=1)

    result = cli.run("retry", "--all", "--watch")

    states = [line.partition(":")[0] for line in result.stderr.splitlines()]
    assert states[:4] == ["waiting", "preparing", "forwarding", "completed"]
    assert len(set(states)) == len(states)


def test_rate_and_time_left_are_told(cli: CommandLine) -> None:
    # Given an operation that is half done after ten looks of half a second
    cli.api.receive(*(failure() for _ in range(4)))
    operation = cli.api.http.post("/api/errors/retry/all").json()["operation_id"]
    looks = iter([4] * 10 + [2] + [0])

    def tell(_request: httpx.Request) -> httpx.Response:
        left = next(looks)
        found = {**cli.api.get(f"operations/{operation}"), "remaining": left, "forwarded": 4 - left}
        found["state"] = "forwarding" if left else "completed"
        return httpx.Response(200, json=found, headers={"X-Particular-Version": "1"})

    cli.answer = tell
    cli.on_pause = lambda: None

    result = cli.run("operations", "show", operation, "--watch")

    assert "forwarding: 2 of 4 sent back, 0/s, 5 s left" in result.stderr.splitlines()


def test_a_bar_is_shown_on_a_terminal(cli: CommandLine) -> None:
    cli.bench.fail(3)
    cli.terminal = 100

    result = cli.run("retry", "--all", "--watch", NO_COLOR="1")

    assert "3/3" in result.stderr
    assert "0:00:0" in result.stderr
    assert result.stdout == "3 of 3 messages sent back; 3 without outcome yet\n"


def test_a_retry_that_skips_ends_with_1(cli: CommandLine) -> None:
    (known,) = cli.bench.fail()
    unknown = str(uuid4())

    result = cli.run("retry", known, unknown, "--watch")

    assert result.exit_code == 1
    assert "1 of 2 messages sent back, 1 skipped; 1 without outcome yet" in result.stdout
    assert f"{unknown}  no failed message has this id" in result.stdout


def test_a_retry_that_fails_ends_with_1(cli: CommandLine) -> None:
    cli.bench.fail()
    cli.bench.transport.cue(Refused("queue is full"), when=to_queue(QUEUE), times=None)

    result = cli.run("retry", "--all", "--watch")

    assert result.exit_code == 1
    refused = f"the broker would not take the retry to {QUEUE}: queue is full"
    assert result.stdout == f"0 of 1 message sent back, 1 failed: {refused}\n"


def test_the_reason_of_one_of_several_is_not_told_of_all(cli: CommandLine) -> None:
    cli.bench.fail(2)
    cli.bench.transport.cue(Refused("queue is full"), when=to_queue(QUEUE), times=None)

    result = cli.run("retry", "--all", "--watch")

    assert "2 failed, one of them because the broker would not take" in result.stdout


def test_a_retry_to_a_missing_queue_says_so(cli: CommandLine) -> None:
    cli.bench.fail()
    cli.bench.transport.broker.delete(QUEUE)

    result = cli.run("retry", "--all", "--watch")

    assert result.exit_code == 1
    assert f"0 of 1 message sent back, 1 failed: queue {QUEUE} does not exist (" in result.stdout
    assert "completed: 0 of 1 sent back, 1 failed" in result.stderr
    assert f"`retrier redirects set {QUEUE} QUEUE`" in result.stderr


def test_a_message_whose_queue_is_missing_says_what_can_be_done(cli: CommandLine) -> None:
    (message,) = cli.bench.fail()
    cli.bench.transport.broker.delete(QUEUE)
    cli.run("retry", message, "--watch")

    remarks = cli.run("errors", "show", message).stderr

    assert f"`retrier retry {message[:8]} --destination QUEUE`" in remarks
    assert f"`retrier redirects set {QUEUE} QUEUE`" in remarks


def test_a_retry_of_a_message_on_its_way_says_at_once_that_it_is_skipped(cli: CommandLine) -> None:
    (message,) = cli.bench.fail()
    cli.run("retry", message, "--watch")

    result = cli.run("retry", message)

    assert result.exit_code == 1
    assert result.stdout.startswith("asked for a retry of 0 messages: operation ")
    assert f"{message}  its retry was issued already and has neither" in result.stdout
    assert "There is nothing to retry: all that was named is skipped." in result.stderr


def test_a_retry_of_what_its_stream_holds_says_at_once_that_it_is_skipped(cli: CommandLine) -> None:
    first, second = fail_in_stream(cli.bench, 2)

    result = cli.run("retry", second)

    assert result.exit_code == 1
    assert result.stdout.startswith("asked for a retry of 0 messages: operation ")
    assert f"{second}  held behind {first}" in result.stdout
    assert "There is nothing to retry: all that was named is skipped." in result.stderr


def test_a_dry_run_of_what_its_stream_holds_would_retry_nothing(cli: CommandLine) -> None:
    _, second = fail_in_stream(cli.bench, 2)

    document = json.loads(cli.run("retry", second, "--dry-run", "--json").stdout)

    assert (document["total"], document["would_retry"]) == (1, 0)
    assert "held behind" in document["skipped_messages"][0]["reason"]


def test_a_retry_of_which_something_is_left_says_what_is_skipped(cli: CommandLine) -> None:
    (known,) = cli.bench.fail()
    unknown = str(uuid4())

    result = cli.run("retry", known, unknown)

    assert result.exit_code == 0
    assert result.stdout.startswith("asked for a retry of 1 message: operation ")
    assert f"{unknown}  no failed message has this id" in result.stdout


def test_a_watched_retry_is_one_json_document(cli: CommandLine) -> None:
    cli.bench.fail(2)

    document = json.loads(cli.run("retry", "--all", "--watch", "--json").stdout)

    assert (document["state"], document["forwarded"]) == ("completed", 2)


def test_a_watch_outlives_a_restart_of_the_service(cli: CommandLine) -> None:
    cli.bench.fail()

    def go_away() -> None:
        cli.answer = None
        cli.bench.work()

    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    operation = cli.bench.ask_all().operation_id
    tries = iter([refuse, refuse])

    def answer(request: httpx.Request) -> httpx.Response:
        broken = next(tries, None)
        return broken(request) if broken else forward(request)

    def forward(request: httpx.Request) -> httpx.Response:
        found = cli.api.http.get(request.url.raw_path.decode())
        return httpx.Response(found.status_code, content=found.content, headers=found.headers)

    cli.answer = answer
    cli.on_pause = go_away

    result = cli.run("operations", "show", operation, "--watch")

    assert result.exit_code == 0
    assert len([line for line in result.stderr.splitlines() if "Trying again" in line]) == 1


def test_a_watch_gives_up_on_a_service_that_stays_away(cli: CommandLine) -> None:
    cli.bench.fail()
    operation = cli.bench.ask_all().operation_id

    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    cli.answer = refuse

    assert cli.run("operations", "show", operation, "--watch").exit_code == 3
    assert 30 < cli.clock.monotonic() - 1000 < 35


def test_an_interrupted_watch_leaves_the_retry_alone(cli: CommandLine) -> None:
    cli.bench.fail()

    def interrupt() -> None:
        raise KeyboardInterrupt

    cli.on_pause = interrupt

    result = cli.run("retry", "--all", "--watch")

    (operation,) = cli.asked()
    assert result.exit_code == 130
    assert f"retrier operations show {operation['id'][:8]} --watch" in result.stderr


def test_one_is_retried_by_its_message_id(cli: CommandLine) -> None:
    cli.api.receive(failure(message_id="order-42"), failure())

    result = cli.run("retry", "order-42")

    assert result.exit_code == 0
    assert "asked for a retry of 1 message" in result.stdout


def test_several_are_retried_by_message_ids_that_look_like_ours(cli: CommandLine) -> None:
    theirs = [f"12345678-1234-1234-1234-12345678900{each}" for each in range(3)]
    cli.api.receive(*(failure(message_id=each) for each in theirs))

    result = cli.run("retry", *theirs)

    assert result.exit_code == 0
    assert "asked for a retry of 3 messages" in result.stdout


def test_a_message_id_that_begins_the_id_of_another_message_does_nothing(cli: CommandLine) -> None:
    (other,) = cli.api.receive(failure())
    cli.api.receive(failure(message_id=other[:8]))

    result = cli.run("retry", other[:8])

    assert (result.exit_code, cli.asked()) == (1, [])
    assert f"2 failed messages have the message id {other[:8]}" in result.stderr


def test_headers_to_drop_are_handed_on_and_shown(cli: CommandLine) -> None:
    cli.api.receive(failure())

    cli.run("retry", "--all", "--drop-header", "x-trace", "--drop-header", "x-exception-*")

    (operation,) = cli.asked()
    assert operation["drop_headers"] == ["x-trace", "x-exception-*"]
    assert "x-trace, x-exception-*" in cli.run("operations", "show", operation["id"]).stdout


def test_a_header_that_a_retry_needs_is_not_dropped(cli: CommandLine) -> None:
    cli.api.receive(failure())

    result = cli.run("retry", "--all", "--drop-header", "Retrier.RetryId")

    assert result.exit_code != 0
    assert "which a retry needs" in result.stderr
    assert cli.asked() == []


def test_what_came_back_from_an_operation_is_retried_alone(cli: CommandLine) -> None:
    cli.bench.fail(3)
    cli.run("retry", "--all", "--watch")
    operation = cli.asked()[0]["id"]
    cli.bench.fail(2)

    result = cli.run("retry", "--operation", operation[:8], "--outcome", "waiting", "--dry-run")

    assert "0 messages" in result.stdout
    assert cli.run("retry", "--outcome", "waiting").exit_code == 2
