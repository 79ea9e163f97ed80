"""The view of the batches that are alive: their progress in SQL, without a join."""

from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import text

from retrier.store.batches import list_batches
from retrier.store.engine.database import Database
from tests.contract.store_rows import select_rows
from tests.support.bench import Bench, Killed


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def shown(bench: Bench) -> list[dict[str, Any]]:
    return select_rows(bench.db, text("SELECT * FROM v_retry_batches"))


def only(bench: Bench) -> Mapping[str, Any]:
    (row,) = shown(bench)
    return row


def progress(row: Mapping[str, Any]) -> tuple[object, ...]:
    return tuple(
        row[name]
        for name in ("status", "claims", "stamped", "recorded", "in_doubt", "initial_size")
    )


def die_at(bench: Bench, point: str) -> None:
    bench.kill_at(point)
    with pytest.raises(Killed):
        bench.work()


def test_is_empty_without_a_batch(bench: Bench) -> None:
    bench.fail(3)
    bench.ask_all()
    bench.work()

    assert shown(bench) == []


def test_shows_a_batch_that_is_being_marked(bench: Bench) -> None:
    bench.ask(bench.fail(3))
    die_at(bench, "marking.opened")

    assert progress(only(bench)) == ("marking", 0, 0, 0, 0, 0)


def test_shows_a_batch_with_its_operation(bench: Bench) -> None:
    created = bench.ask(bench.fail(3))
    die_at(bench, "staging.committed")

    row, (stored,) = only(bench), bench.batches()
    operation = bench.operation(created)
    assert progress(row) == ("forwarding", 3, 0, 0, 0, 3)
    assert row["message_count"] == 3
    same = ["batch_id", "session_id", "staging_id", "operation_id", "reason", "stage_attempts"]
    assert [str(row[name]) for name in same] == [str(stored[name]) for name in same]
    asked = ["originator", "requested_by"]
    assert [row[name] for name in asked] == [operation[name] for name in asked]


def test_shows_what_is_in_doubt_and_what_is_recorded(bench: Bench) -> None:
    bench.ask(bench.fail(3))
    die_at(bench, "forwarding.published")
    doubtful = only(bench)
    told: list[Mapping[str, Any]] = []
    bench.restart()
    bench.at("forwarding.acked", lambda: told.append(only(bench)), time=2)
    bench.work()
    recorded = told[0]

    stamped = int(doubtful["stamped"])
    assert progress(doubtful) == ("forwarding", 3, stamped, 0, stamped, 3)
    assert stamped > 0
    assert progress(recorded) == ("forwarding", 3, stamped, 1, stamped - 1, 3)


def test_counts_as_the_api_does(bench: Bench) -> None:
    bench.ask(bench.fail(3))
    die_at(bench, "forwarding.published")

    (counted,) = list_batches(bench.db)
    row = only(bench)
    assert (row["claims"], row["recorded"], row["in_doubt"]) == (
        counted.claims,
        counted.forwarded,
        counted.in_doubt,
    )


def test_counts_no_claim_that_outlives_its_batch(bench: Bench) -> None:
    bench.ask(bench.fail(2))
    bench.work()
    assert len(bench.claims()) == 2

    bench.ask(bench.fail(1))
    die_at(bench, "staging.committed")

    assert only(bench)["claims"] == 1
