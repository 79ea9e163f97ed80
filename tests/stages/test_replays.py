"""A stage that is run again where it has just been changes nothing."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from retrier.domain.retry_batch import RetryBatchStatus
from retrier.processor.forwarding import Forwarding
from retrier.processor.marking import Adoption, Marking
from retrier.processor.stage_context import StageContext
from retrier.processor.staging import Staging
from retrier.processor.staging_queue import StagingQueue
from retrier.store.batches import find_most_advanced
from retrier.store.engine.database import Database
from retrier.store.processor_work import look_ahead
from retrier.store.recording import record_received
from retrier.store.schema import metadata
from tests.support.bench import Bench, Killed
from tests.support.factories import failure

Stage = Marking | Adoption | Staging | Forwarding

MOVED_BY = {
    Adoption: RetryBatchStatus.MARKING,
    Staging: RetryBatchStatus.STAGING,
    Forwarding: RetryBatchStatus.FORWARDING,
}

UNTOUCHED = frozenset({"processor_lease"})
"""Renewed by every look of the processor, whatever it finds."""
COUNTED_UP = frozenset({"ledger", "counters"})
"""What counts deliveries, and the numbers given out: two deliveries are two."""


@pytest.fixture
def bench(database: Database) -> Bench:
    bench = Bench(database, window=2)
    bench.ask(bench.fail(5))
    return bench


def come_before(bench: Bench, point: str) -> None:
    """Let a process die at this point, so that the stage under test has work."""
    bench.kill_at(point)
    with pytest.raises(Killed):
        bench.work()
    bench.restart()


def forwarding_of(context: StageContext) -> Forwarding:
    return Forwarding(context, StagingQueue(context), lambda: None)


def everything(bench: Bench, but: frozenset[str] = UNTOUCHED) -> tuple[Any, ...]:
    tables = [table for table in metadata.sorted_tables if table.name not in but]
    rows = [sorted(map(repr, bench.rows(select(table)))) for table in tables]
    return (*rows, bench.sent(), len(bench.transport.published), len(bench.transport.acked))


def take_turn(stage: Stage, db: Database) -> bool:
    if isinstance(stage, Marking):
        return stage.run_once(db.read(look_ahead))[0]
    found = db.read(find_most_advanced)
    if found is None or found.batch.status is not MOVED_BY[type(stage)]:
        return False
    stage.run_once(found.batch)
    return True


def run_to_its_end(stage: Stage, db: Database) -> int:
    turns = 0
    while take_turn(stage, db):
        turns += 1
    return turns


@pytest.mark.parametrize(
    ("point", "stage_of"),
    [
        pytest.param("marking.claimed", Adoption, id="adoption"),
        pytest.param("marking.moved", Staging, id="staging"),
        pytest.param("staging.committed", forwarding_of, id="forwarding"),
    ],
)
def test_a_stage_that_is_run_again_changes_nothing(bench: Bench, point: str, stage_of: Any) -> None:
    come_before(bench, point)
    stage = stage_of(bench.context)
    assert run_to_its_end(stage, bench.db) >= 1
    before = everything(bench)

    assert run_to_its_end(stage_of(bench.context), bench.db) == 0

    assert everything(bench) == before


def test_marking_that_is_run_again_claims_nothing_more(bench: Bench) -> None:
    assert run_to_its_end(Marking(bench.context), bench.db) == 1
    before = everything(bench)

    assert run_to_its_end(Marking(bench.context), bench.db) == 0

    assert everything(bench) == before


def test_a_batch_that_ingestion_records_again_changes_nothing(bench: Bench) -> None:
    # It is redelivered as a whole when the process died between its commit and its acks.
    batch = [replace(failure(), redelivered=True) for _ in range(3)]
    record_received(bench.db, batch, instance="test")
    before = everything(bench, COUNTED_UP)

    record_received(bench.db, batch, instance="test")

    assert everything(bench, COUNTED_UP) == before


def test_a_confirmation_that_is_recorded_again_changes_nothing(bench: Bench) -> None:
    bench.work()
    (unique_id, *_) = bench.sent()
    bench.confirm(unique_id)
    before = everything(bench, COUNTED_UP)

    bench.confirm(unique_id)

    assert everything(bench, COUNTED_UP) == before
