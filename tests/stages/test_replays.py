"""A stage that is run again where it has just been changes nothing."""

from typing import Any

import pytest
from sqlalchemy import select

from retrier.processor.forwarding import Forwarding
from retrier.processor.marking import Adoption, Marking
from retrier.processor.staging import Staging
from retrier.processor.surroundings import Surroundings
from retrier.store.database import Database
from retrier.store.schema import metadata
from tests.support.bench import Bench, Killed

Stage = Marking | Adoption | Staging | Forwarding

UNTOUCHED = frozenset({"processor_lease"})
"""Renewed by every look of the processor, whatever it finds."""


@pytest.fixture
def bench(database: Database) -> Bench:
    bench = Bench(database, window=2)
    bench.fail(5)
    bench.ask_all()
    return bench


def come_before(bench: Bench, point: str) -> None:
    """Let a process die at this point, so that the stage under test has work."""
    bench.kill_at(point)
    with pytest.raises(Killed):
        bench.work()
    bench.restart()


def forwarding_of(around: Surroundings) -> Forwarding:
    return Forwarding(around, lambda: None)


def everything(bench: Bench) -> tuple[Any, ...]:
    tables = [table for table in metadata.sorted_tables if table.name not in UNTOUCHED]
    rows = [sorted(map(repr, bench.rows(select(table)))) for table in tables]
    return (*rows, bench.sent(), len(bench.transport.published), len(bench.transport.acked))


def run_to_its_end(stage: Stage) -> int:
    turns = 0
    while stage.run_once():
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
    stage = stage_of(bench.around)
    assert run_to_its_end(stage) >= 1
    before = everything(bench)

    assert run_to_its_end(stage_of(bench.around)) == 0

    assert everything(bench) == before


def test_marking_that_is_run_again_claims_nothing_more(bench: Bench) -> None:
    assert run_to_its_end(Marking(bench.around)) == 1
    before = everything(bench)

    assert run_to_its_end(Marking(bench.around)) == 0

    assert everything(bench) == before
