"""Once all of the prefetch is allowed, the next batch is understood while one is recorded."""

from collections.abc import Sequence
from typing import Any

import pytest

from retrier.domain.failed_message import FailedImport, Received
from retrier.domain.recording import Recorded
from retrier.errors import DatabaseUnavailable, DataRefused
from retrier.overlap import WhileInFlight, nothing_else
from tests.support.ingestion_bench import QUEUE, IngestionBench, make_recorded

BODIES = [b"%d" % number for number in range(7)]
SLOW_START = 2
"""The turns after which a prefetch of 3 is allowed; they take one message, then two."""
ENOUGH = 10
DOWN = DatabaseUnavailable("no route to the database")


def make_bench(**changes: Any) -> IngestionBench:
    bench = IngestionBench(**{"prefetch": 3} | changes)
    bench.fail(*BODIES)
    return bench


@pytest.fixture
def bench() -> IngestionBench:
    return make_bench()


def test_every_message_is_recorded_once_and_in_order(bench):
    bench.turns(ENOUGH)

    assert [body for batch in bench.recorded() for body in batch] == BODIES
    assert bench.transport.broker.holds(QUEUE) == []


def test_a_batch_is_a_third_of_the_prefetch(bench):
    bench.turns(ENOUGH)

    assert [len(batch) for batch in bench.recorded()] == [1, 2, 1, 1, 1, 1]


def test_the_next_batch_is_understood_piece_by_piece():
    pieces: list[list[bool]] = []

    def record(
        _received: Sequence[Received],
        *,
        while_in_flight: WhileInFlight = nothing_else,
        make_sure: object = None,
    ) -> Recorded:
        del make_sure
        pieces.append(
            [while_in_flight(), while_in_flight()] if while_in_flight is not nothing_else else []
        )
        return make_recorded()

    make_bench(record=record).turns(ENOUGH)

    assert pieces == [[], [], [True, False], [True, False], [True, False], []]


def test_nothing_is_acknowledged_before_it_is_recorded():
    held: list[bool] = []

    def record(received: Sequence[Received], **_others: object) -> Recorded:
        lying = {each.body for each in bench.transport.broker.holds(QUEUE)}
        held.append({getattr(each, "body", b"") for each in received} <= lying)
        return make_recorded()

    bench = make_bench(record=record)

    bench.turns(ENOUGH)

    assert held == [True] * 6


def test_what_was_handed_over_before_a_stop_is_recorded_in_order(bench):
    bench.turns(SLOW_START + 1)

    assert [body for batch in bench.recorded() for body in batch] == BODIES
    assert bench.transport.broker.holds(QUEUE) == []


def test_what_was_taken_when_the_database_failed_comes_again(bench):
    bench.store.faults = [None, None, DOWN]

    bench.turns(ENOUGH)

    assert sorted(body for batch in bench.recorded() for body in batch) == BODIES
    assert bench.told.names == ["ingestion.started", "ingestion.paused", "ingestion.resumed"]


def test_what_was_taken_ahead_of_a_lost_connection_is_recorded_once(bench):
    bench.turns(SLOW_START + 1)
    bench.transport.drop_connections("reset")

    bench.turns(ENOUGH)

    assert sorted(body for batch in bench.recorded() for body in batch) == BODIES


def test_one_that_the_database_refuses_becomes_a_failed_import(bench):
    bench.store.refuses = {BODIES[-1]: DataRefused("invalid byte sequence")}

    bench.turns(ENOUGH)

    (last,) = bench.store.batches[-1]
    assert isinstance(last, FailedImport)
    assert bench.transport.broker.holds(QUEUE) == []


def test_where_others_are_left_a_turn_nothing_is_taken_ahead():
    bench = make_bench(pause=0.01)

    bench.turns(ENOUGH)

    steps = [each for each in bench.transport.calls if each in ("consumer.receive", "consumer.ack")]
    assert steps[:8] == ["consumer.receive", "consumer.ack"] * 4
