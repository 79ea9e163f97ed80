"""Messages taken back out of a retry: unresolved above every cut-off, whatever happens meanwhile."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest
from sqlalchemy import event

from retrier.domain.wire import Refused
from retrier.store.engine.database import Database
from retrier.store.operation_requests import CreatedOperation
from tests.support.bench import QUEUE, Bench
from tests.support.factories import failure
from tests.support.script import to_queue

NUMBERS = ("nextval('failure_seq')", "INSERT INTO counters")
"""How each database takes failure numbers."""
LONG_ENOUGH = 0.3
"""Seconds a request needs at most when nothing holds it up."""


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


@contextmanager
def when_numbers_are_taken(bench: Bench, act: Callable[[], None]) -> Iterator[None]:
    def look(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if any(mark in statement for mark in NUMBERS):
            act()

    event.listen(bench.db.engine, "after_cursor_execute", look)
    yield
    event.remove(bench.db.engine, "after_cursor_execute", look)


def test_several_messages_of_one_window_are_taken_back(bench: Bench) -> None:
    ids = bench.fail(3)
    bench.transport.cue(Refused("no"), when=to_queue(QUEUE), times=None)

    operation = bench.ask_all()
    bench.work()

    row = bench.operation(operation)
    assert bench.statuses() == dict.fromkeys(ids, "unresolved")
    assert (row["state"], row["failed"]) == ("completed", 3)


def test_a_message_taken_back_is_above_the_cut_off_of_its_operation(bench: Bench) -> None:
    (unique_id,) = bench.fail()
    bench.transport.cue(Refused("no"), when=to_queue(QUEUE))

    operation = bench.ask_all()
    bench.work()

    row = bench.operation(operation)
    assert bench.message(unique_id)["failure_seq"] > row["cut_off"]


def test_a_request_made_while_messages_are_taken_back_counts_what_it_sends(bench: Bench) -> None:
    bench.fail(3)
    bench.transport.cue(Refused("no"), when=to_queue(QUEUE), times=3)
    bench.ask_all()
    asked: list[CreatedOperation] = []
    asking = Thread(target=lambda: asked.append(bench.ask_all()))

    def ask_meanwhile() -> None:
        if not asking.ident:
            asking.start()
            asking.join(LONG_ENOUGH)

    with when_numbers_are_taken(bench, ask_meanwhile):
        bench.work()
    asking.join()
    bench.work()

    row = bench.operation(asked[0])
    assert (row["total"], row["forwarded"], row["skipped"]) == (3, 3, 0)


def test_a_message_with_its_outcome_is_not_taken_back(bench: Bench) -> None:
    (unique_id,) = bench.fail()
    bench.transport.cue(Refused("no"), when=to_queue(QUEUE))
    operation = bench.ask([unique_id])

    bench.at("forwarding.published", lambda: bench.confirm(unique_id))
    bench.work()

    row = bench.operation(operation)
    assert bench.statuses() == {unique_id: "resolved"}
    assert (row["forwarded"], row["failed"]) == (1, 0)


def test_a_message_taken_back_can_fail_anew(bench: Bench) -> None:
    bench.receive(failure(queue="gone", message_id="7"))
    (unique_id,) = bench.statuses()
    bench.ask([unique_id])
    bench.work()

    bench.transport.broker.declare("gone")
    bench.receive(failure(queue="gone", message_id="7"))
    bench.ask([unique_id])
    bench.work()

    assert bench.sent("gone") == [unique_id]
