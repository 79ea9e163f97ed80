"""Where streams hold very many messages a cut looks at the heads of streams, and finds the same."""

from random import Random

import pytest
from sqlalchemy import ColumnElement, select

from retrier.domain.failed_message import FailedMessageStatus, Failure
from retrier.domain.streams import read_position
from retrier.store.cuts import LOOKED_AT_EACH
from retrier.store.engine.database import Database
from retrier.store.engine.transaction import Transaction
from retrier.store.holds import IS_HELD, hold_by_streams
from retrier.store.schema import failed_messages
from tests.contract.store_rows import set_columns
from tests.support.bench import QUEUE, Bench
from tests.support.breaking import OTHER
from tests.support.factories import failure, unique_id
from tests.support.streams import fail_in_stream, look_now

messages = failed_messages.c
DICE = Random(20)  # noqa: S311 - a test that repeats
COUNT = 300


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def any_failure() -> Failure:
    """Make a failure of one of ten streams in two queues, or of none, that may state a place."""
    return failure(
        queue=DICE.choice((QUEUE, OTHER)),
        stream_id=DICE.choice((None, *"abcde")),
        stream_position=read_position(DICE.choice((None, 1, 2, 3))),
    )


def any_state() -> dict[str, object]:
    """Return a state in which a message of a stream may be that is not being retried."""
    become = DICE.choice(({}, {}, {"status": FailedMessageStatus.ARCHIVED}))
    rule = DICE.choice(("strict", "strict", "release", None))
    return {**become, "stream_rule": rule, "released": DICE.random() < 1 / COUNT**0.5}


def numbers_where(tx: Transaction, condition: ColumnElement[bool]) -> list[int]:
    return list(tx.execute(select(messages.number).where(condition).order_by("number")).scalars())


def held_by_heads(tx: Transaction) -> list[int] | None:
    found = hold_by_streams(tx)
    assert found is not None
    assert found.by_heads is not None
    condition = found.by_heads(tx)
    return None if condition is None else numbers_where(tx, condition)


def hold_many(bench: Bench) -> tuple[str, str]:
    """Let a stream hold more messages than a cut looks at each of; return its first two."""
    first, second, *_ = fail_in_stream(bench, LOOKED_AT_EACH + 10)
    return first, second


def test_the_heads_hold_what_an_earlier_message_of_its_stream_holds(bench: Bench) -> None:
    failures = [any_failure() for _ in range(COUNT)]
    bench.receive(*failures)
    bench.transport.broker.declare(OTHER)
    bench.ask([unique_id(each) for each in failures[::7]])
    bench.work()
    for at, each in enumerate(failures):
        if at % 7 and each.details.stream_id is not None:
            set_columns(bench.db, unique_id(each), **any_state())

    held = bench.db.read(lambda tx: numbers_where(tx, IS_HELD))

    assert bench.db.read(held_by_heads) == held
    assert held


def test_a_head_behind_very_many_that_are_held_is_found(bench: Bench) -> None:
    first, second = hold_many(bench)
    (behind,) = fail_in_stream(bench, 1, stream_id="another")
    created = bench.ask_all()

    bench.work()
    assert bench.sent() == [first, behind]

    bench.confirm(first)
    look_now(bench)
    bench.work()
    assert bench.sent() == [first, behind, second]
    assert bench.operation(created)["left_out"] == LOOKED_AT_EACH + 8
