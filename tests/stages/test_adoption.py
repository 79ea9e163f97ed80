"""Adoption: a batch found in Marking goes on with the claims it got, whoever left it."""

from collections.abc import Callable, Iterator, Sequence

import pytest
from sqlalchemy import select, update

from retrier.domain.retry_batch import BATCH_BYTES
from retrier.errors import DatabaseUnavailable
from retrier.store.batches import batch_from_row
from retrier.store.engine.database import Database
from retrier.store.marking import adopt
from retrier.store.operation_requests import CreatedOperation
from retrier.store.schema import event_log, failed_messages
from tests.conftest import opened_empty
from tests.support.bench import Bench, Killed
from tests.support.flaky_database import FlakyDatabase

Ask = Callable[[Bench, Sequence[str]], CreatedOperation]


def by_name(bench: Bench, ids: Sequence[str]) -> CreatedOperation:
    return bench.ask(ids)


def of_all(bench: Bench, _ids: Sequence[str]) -> CreatedOperation:
    return bench.ask_all()


# What passes through Marking in several transactions; of_all on PostgreSQL takes one.
@pytest.fixture(
    params=[
        pytest.param(("sqlite", by_name), id="sqlite-by_name"),
        pytest.param(("sqlite", of_all), id="sqlite-of_all"),
        pytest.param(("postgres", by_name), id="postgres-by_name", marks=pytest.mark.postgres),
    ]
)
def way(request: pytest.FixtureRequest) -> tuple[str, Ask]:
    found: tuple[str, Ask] = request.param
    return found


@pytest.fixture
def database(way: tuple[str, Ask], request: pytest.FixtureRequest) -> Iterator[Database]:
    with opened_empty(way[0], request) as db:
        yield db


@pytest.fixture
def ask(way: tuple[str, Ask]) -> Ask:
    return way[1]


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def die_at(bench: Bench, point: str) -> None:
    bench.kill_at(point)
    with pytest.raises(Killed):
        bench.work()
    bench.restart()


def test_an_orphan_with_claims_is_adopted(bench: Bench, ask: Ask) -> None:
    ids = bench.fail(3)
    operation = ask(bench, ids)
    die_at(bench, "marking.claimed")

    bench.work()

    assert "batch.adopted" in bench.told.names
    assert bench.sent() == ids
    assert bench.operation(operation)["batches"] == 1


def adoptions(bench: Bench) -> list[dict[str, object]]:
    rows = bench.rows(select(event_log).where(event_log.c.kind == "batch_adopted"))
    return [
        {"batch_id": row["batch_id"], "operation_id": row["operation_id"], **row["details"]}
        for row in rows
    ]


def told(bench: Bench) -> list[dict[str, object]]:
    names = ("batch_id", "operation_id", "session_id", "size")
    return [{name: each[name] for name in names} for each in bench.told.of("batch.adopted")]


def test_an_orphan_with_claims_is_in_the_table_as_in_the_log(bench: Bench, ask: Ask) -> None:
    operation = ask(bench, bench.fail(3))
    die_at(bench, "marking.claimed")
    (left,) = bench.batches()

    bench.work()

    (adopted,) = adoptions(bench)
    assert told(bench) == [adopted]
    assert adopted == {
        "batch_id": left["batch_id"],
        "operation_id": operation.operation_id,
        "session_id": left["session_id"],
        "size": 3,
    }


def test_an_orphan_without_claims_is_in_both_as_deleted(bench: Bench, ask: Ask) -> None:
    ask(bench, bench.fail(3))
    die_at(bench, "marking.opened")

    bench.work()

    (adopted,) = adoptions(bench)
    (entry,) = bench.rows(select(event_log).where(event_log.c.kind == "batch_adopted"))
    assert told(bench) == [adopted]
    assert adopted["size"] == 0
    assert "it is deleted" in entry["text"]


def test_a_batch_that_is_marked_as_usual_is_not_adopted(bench: Bench, ask: Ask) -> None:
    ask(bench, bench.fail(3))

    bench.work()

    assert (told(bench), adoptions(bench)) == ([], [])


def test_an_orphan_without_claims_is_deleted_and_its_operation_cut_again(
    bench: Bench, ask: Ask
) -> None:
    ids = bench.fail(3)
    operation = ask(bench, ids)
    die_at(bench, "marking.opened")

    bench.work()

    assert bench.sent() == ids
    assert bench.operation(operation)["state"] == "completed"


def test_an_orphan_of_this_same_session_is_adopted(database: Database, ask: Ask) -> None:
    flaky = FlakyDatabase(database)
    bench = Bench(flaky)
    ids = bench.fail(3)
    ask(bench, ids)

    flaky.refuse("move_to_staging")
    with pytest.raises(DatabaseUnavailable):
        bench.turn()
    bench.work()

    assert bench.told.names.count("batch.adopted") == len(adoptions(bench)) == 1
    assert bench.sent() == ids


def test_an_orphan_is_adopted_before_anything_new_is_cut(bench: Bench, ask: Ask) -> None:
    orphaned = bench.fail(2, endpoint="north")
    ask(bench, orphaned)
    die_at(bench, "marking.claimed")
    (single,) = bench.fail(1, endpoint="south")

    bench.ask([single])
    bench.work()

    assert bench.sent() == [*orphaned, single]


def test_an_orphan_keeps_its_claims_and_their_retry_ids(bench: Bench, ask: Ask) -> None:
    ids = bench.fail(2)
    ask(bench, ids)
    die_at(bench, "marking.claimed")
    before = {key: row["retry_id"] for key, row in bench.claims().items()}

    bench.work()

    assert {key: row["retry_id"] for key, row in bench.claims().items()} == before


def test_an_adoption_that_is_killed_is_done_again(bench: Bench, ask: Ask) -> None:
    ids = bench.fail(2)
    ask(bench, ids)
    die_at(bench, "marking.claimed")
    die_at(bench, "adoption.moved")

    bench.work()

    assert bench.sent() == ids


def test_a_kill_while_marking_forgets_none_of_the_rest(bench: Bench, ask: Ask) -> None:
    ids = bench.fail(6)
    with bench.db.engine.begin() as conn:
        conn.execute(update(failed_messages).values(body_size=BATCH_BYTES // 2))
    operation = ask(bench, ids)
    die_at(bench, "marking.claimed")

    bench.work()

    row = bench.operation(operation)
    assert bench.sent() == ids
    assert (row["state"], row["batches"], row["forwarded"]) == ("completed", 3, 6)


def test_an_adoption_that_comes_late_pushes_no_batch_back(bench: Bench, ask: Ask) -> None:
    # Given a batch that was in Marking when somebody looked, and is in Forwarding by now
    ids = bench.fail(3)
    ask(bench, ids)
    die_at(bench, "staging.committed")
    (before,) = bench.batches()
    late = batch_from_row(before)

    assert adopt(bench.db, bench.context.lease.fence, late) is None

    assert (bench.batches(), adoptions(bench)) == ([before], [])
    bench.work()
    assert bench.sent() == ids
