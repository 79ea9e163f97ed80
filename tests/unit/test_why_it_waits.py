"""Every wait names what holds it, on every face: one table of all reasons and all faces."""

import html
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update

from retrier.domain.retry_operation import Canary, Cancel, Pause, RetryTerms, SetRate
from retrier.store.schema import failed_messages, processor_lease, retry_batches, retry_operations
from tests.conftest import opened_empty
from tests.support.bench import Bench, Killed
from tests.support.command_line import CommandLine
from tests.support.scheduling import LATER, LONG_AGO, STANDING, schedule
from tests.support.statements import statements
from tests.support.streams import fail_in_stream
from tests.support.web import Web

MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """An operation that waits, and a message of it; None where the face says nothing of it."""

    operation: str | None = STANDING.operation_id
    message: str | None = None
    group: bool = False


@dataclass
class Faces:
    """What people are told: API, command line and page, on one database."""

    cli: CommandLine
    web: Web

    def of_operation(self, key: str) -> Iterator[tuple[str, str]]:
        api = self.cli.api
        processor = api.get("processor")
        (own,) = [each for each in processor["operations"] if each["id"] == key]
        (listed,) = [each for each in api.get("operations") if each["id"] == key]
        yield "API processor", str(processor.get("why", own.get("waits_because")))
        yield "API processor, operations", str(own.get("waits_because"))
        yield "API operations", str(listed.get("waits_because"))
        yield "API operation", str(api.get(f"operations/{key}").get("waits_because"))
        yield "CLI processor", self.run("processor")
        yield "CLI operations list", self.run("operations", "list")
        yield "CLI operations show", self.run("operations", "show", key)
        yield "page of the processor", self.page("/processor")
        yield "page of operations", self.page("/operations")
        yield "page of the operation", self.page(f"/operations/{key}")

    def of_message(self, key: str) -> Iterator[tuple[str, str]]:
        yield "API message", str(self.cli.api.get(f"errors/{key}").get("waits_because"))
        item = self.cli.api.get(f"errors/last/{key}")
        if item["disposition"] == "scheduled":
            (listed,) = [each for each in self.cli.api.get("errors") if each["id"] == key]
            yield "API list of messages", str(listed.get("waits_because"))
            yield "API last failure", str(item.get("waits_because"))
            yield "page of messages", self.page("/messages")
        yield "CLI errors show", self.run("errors", "show", key)
        yield "page of the message", self.page(f"/messages/{key}")

    def of_groups(self) -> Iterator[tuple[str, str]]:
        groups = self.cli.api.get("recoverability/groups")
        yield "API groups", str([each.get("waits_because") for each in groups])
        yield "CLI groups", self.run("groups")
        yield "page of groups", self.page("/groups")

    def run(self, *command: str) -> str:
        result = self.cli.run(*command)
        assert result.exit_code == 0, result.output
        return " ".join(result.output.split())

    def page(self, path: str) -> str:
        text = html.unescape(re.sub(r"<[^>]*>", " ", self.web.get(path)))
        return " ".join(text.split())


def due(bench: Bench, count: int = 1, within: timedelta = LONG_AGO) -> list[str]:
    ids = bench.fail(count)
    schedule(bench.db, ids, within=within)
    return ids


def change(bench: Bench, table: Any, **values: object) -> None:
    with bench.db.engine.begin() as conn:
        conn.execute(update(table).values(values))


def stop_at(bench: Bench, point: str) -> None:
    """Let the processor die at that point, and another one hold the lease."""
    bench.kill_at(point)
    with suppress(Killed):
        bench.work()


def send_one(bench: Bench) -> None:
    """Let one message go at its rate, and the next wait for longer than the test takes."""
    while not bench.sent() or bench.batches():
        bench.turn()
    change(bench, retry_operations, next_cut=bench.db.read(lambda tx: tx.now) + MINUTE)


def nobody(cli: CommandLine) -> Waiting:
    (key,) = due(cli.bench)
    change(cli.bench, processor_lease, session_id=None)
    return Waiting(message=key)


def in_stream(cli: CommandLine) -> Waiting:
    head, held = fail_in_stream(cli.bench, 2)
    schedule(cli.bench.db, [head, held], within=LONG_AGO)
    cli.bench.work()
    return Waiting(message=held, group=True)


def behind_a_person(cli: CommandLine) -> Waiting:
    _, held = fail_in_stream(cli.bench, 2)
    schedule(cli.bench.db, [held], within=LONG_AGO)
    cli.bench.work()
    return Waiting(message=held, group=True)


def held_by_hand(cli: CommandLine) -> Waiting:
    (key,) = due(cli.bench)
    cli.api.http.post("/api/breakers/orders/open")
    cli.bench.work()
    return Waiting(message=key, group=True)


def first_is_held(cli: CommandLine) -> Waiting:
    _, held = fail_in_stream(cli.bench, 2)
    schedule(cli.bench.db, [held], within=LONG_AGO)
    due(cli.bench, within=LONG_AGO / 2)
    return Waiting(message=held)


def paced(cli: CommandLine) -> Waiting:
    bench = cli.bench
    _, other = due(bench, 2)
    bench.per_second = 1
    send_one(bench)
    return Waiting(message=other)


def slowed(cli: CommandLine) -> Waiting:
    bench = cli.bench
    _, other = due(bench, 2)
    bench.steer(STANDING, SetRate(1))
    send_one(bench)
    return Waiting(message=other)


def paused(cli: CommandLine) -> Waiting:
    (key,) = due(cli.bench)
    cli.bench.steer(STANDING, Pause())
    return Waiting(message=key)


def paused_of_message(cli: CommandLine) -> Waiting:
    return Waiting(operation=None, message=paused(cli).message)


def not_due(cli: CommandLine) -> Waiting:
    due(cli.bench, within=LATER)
    return Waiting()


def stuck(cli: CommandLine) -> Waiting:
    bench = cli.bench
    bench.fail(1)
    bench.ask_all()
    stop_at(bench, "marking.moved")
    until = bench.db.read(lambda tx: tx.now) + MINUTE
    change(bench, retry_batches, not_before=until, reason="connection refused")
    (key,) = due(bench)
    return Waiting(message=key)


def claimed(cli: CommandLine) -> Waiting:
    bench = cli.bench
    (key,) = due(bench)
    stop_at(bench, "marking.moved")
    until = bench.db.read(lambda tx: tx.now) + MINUTE
    change(bench, retry_batches, not_before=until, reason="connection refused")
    return Waiting(message=key)


def copied(cli: CommandLine) -> Waiting:
    first, second = due(cli.bench, 2)
    change(cli.bench, failed_messages, maybe_copy_of=first)
    return Waiting(operation=None, message=second)


def in_turn(cli: CommandLine) -> Waiting:
    (key,) = due(cli.bench)
    return Waiting(operation=None, message=key)


def for_later(cli: CommandLine) -> Waiting:
    cli.bench.fail(1)
    terms = RetryTerms(delay=timedelta(hours=1))
    return Waiting(operation=cli.bench.ask_all(terms).operation_id)


def canary(cli: CommandLine) -> Waiting:
    cli.bench.fail(3)
    made = cli.bench.ask_all(RetryTerms(canary=Canary(size=1)))
    while not cli.bench.take_turn():
        pass
    return Waiting(operation=made.operation_id)


def bulk_rate(cli: CommandLine) -> Waiting:
    bench = cli.bench
    bench.fail(3)
    made = bench.ask_all(RetryTerms(rate=1))
    send_one(bench)
    return Waiting(operation=made.operation_id)


def bulk_in_stream(cli: CommandLine) -> Waiting:
    _, held = fail_in_stream(cli.bench, 2)
    made = cli.bench.ask_all()
    cli.bench.work()
    return Waiting(operation=made.operation_id, message=held, group=True)


def bulk_by_breaker(cli: CommandLine) -> Waiting:
    (key,) = cli.bench.fail(1)
    cli.api.http.post("/api/breakers/orders/open")
    made = cli.bench.ask_all()
    cli.bench.work()
    return Waiting(operation=made.operation_id, message=key, group=True)


def cancelled(cli: CommandLine) -> Waiting:
    cli.bench.fail(1)
    made = cli.bench.ask_all()
    stop_at(cli.bench, "forwarding.stamped")
    cli.bench.steer(made, Cancel())
    return Waiting(operation=made.operation_id)


REASONS: list[tuple[Callable[[CommandLine], Waiting], str]] = [
    (nobody, "o process holds the lease"),
    (in_stream, "whose retry was sent and has neither succeeded nor failed yet"),
    (behind_a_person, "which waits for a person"),
    (held_by_hand, "`orders` is held by"),
    (first_is_held, "eld behind"),
    (paced, "he policies allow only so many a second"),
    (slowed, "ts rate is 1 message a second"),
    (paused, "is paused"),
    (paused_of_message, "hat is due by policy is paused"),
    (not_due, "he next is due at"),
    (stuck, "onnection refused"),
    (claimed, "onnection refused"),
    (copied, "t may be a copy of"),
    (in_turn, "t is due, and goes when its turn comes"),
    (for_later, "t was asked for not before"),
    (canary, "ts first 1 message went out, and may come back until"),
    (bulk_rate, "ts rate is 1 message a second"),
    (bulk_in_stream, "eld behind"),
    (bulk_by_breaker, "`orders` is held by"),
    (cancelled, "t was cancelled: only what may have been sent already"),
]
"""What holds something, and how that is said; without its first letter, as sentences begin with it."""


@pytest.fixture
def faces(request: pytest.FixtureRequest) -> Iterator[Faces]:
    with opened_empty("sqlite", request) as db:
        cli = CommandLine(db)
        yield Faces(cli, Web(cli.api))
        cli.api.http.close()


@pytest.mark.parametrize(("arrange", "words"), REASONS, ids=[each.__name__ for each, _ in REASONS])
def test_a_reason_is_told_on_every_face(
    faces: Faces, arrange: Callable[[CommandLine], Waiting], words: str
) -> None:
    waiting = arrange(faces.cli)

    told = [
        *(faces.of_operation(waiting.operation) if waiting.operation else ()),
        *(faces.of_message(waiting.message) if waiting.message else ()),
        *(faces.of_groups() if waiting.group else ()),
    ]

    # A page quotes names as books do.
    page = words.replace("`orders`", "“orders”")
    assert [(face, said) for face, said in told if words not in said and page not in said] == []
    false = "" if arrange is paced else "the policies allow only so many"
    assert [face for face, said in told if false and false in said] == []


@pytest.mark.parametrize("scheduled", [False, True])
def test_what_holds_up_others_is_read_only_for_a_message_that_may_wait(
    faces: Faces,
    scheduled: bool,  # noqa: FBT001 - parametrised
) -> None:
    (key,) = due(faces.cli.bench) if scheduled else faces.cli.bench.fail(1)

    with statements(faces.cli.api.db) as asked:
        faces.cli.api.get(f"errors/{key}")

    assert any("FROM processor_lease" in each for each in asked) is scheduled
