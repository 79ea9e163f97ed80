"""The views about policies, and the figures of scheduled, dead and overdue messages."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from retrier.store.engine.database import Database
from retrier.store.figures import read_figures
from retrier.store.recording import record_received
from tests.contract.store_rows import again, messages, select_rows, set_columns
from tests.support.bench import QUEUE, Bench
from tests.support.factories import FAILED_AT, failure, unique_id
from tests.support.policies import SomePolicies

MINUTE = timedelta(minutes=1)


def receive(db: Database, policies: SomePolicies, *failures: Any) -> None:
    record_received(db, failures, instance="here", judge=policies.judging())


def shown(db: Database, view: str) -> list[dict[str, Any]]:
    return select_rows(db, text(f"SELECT * FROM {view}"))  # noqa: S608 - a name of ours


def test_the_backlog_has_the_first_and_the_last_retry(database: Database) -> None:
    receive(database, SomePolicies(delay=MINUTE), failure(), failure())
    receive(database, SomePolicies(delay=5 * MINUTE), failure())
    receive(database, SomePolicies(attempts=1), failure())

    (backlog,) = shown(database, "v_retry_backlog")

    times = sorted(row["retry_at"] for row in messages(database).values() if row["retry_at"])
    assert backlog["scheduled_count"] == 3
    assert str(backlog["next_retry"])[:19] == str(times[0])[:19]
    assert str(backlog["latest_retry"])[:19] == str(times[-1])[:19]


def test_the_backlog_is_one_row_of_nothing_in_the_end(database: Database) -> None:
    (backlog,) = shown(database, "v_retry_backlog")

    assert backlog == {"scheduled_count": 0, "next_retry": None, "latest_retry": None}


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("unknown", 99),
        ("transport_unavailable", 1),
        ("handler_exception", 2),
        ("validation_failure", 3),
        ("timeout_exceeded", 4),
        ("serialization_error", 5),
        ("dependency_failure", 6),
        ("poison_message", 7),
        ("GW_4XX", None),
    ],
)
def test_a_reason_has_its_code(database: Database, reason: str, code: int | None) -> None:
    policies = SomePolicies(reasons={"E": reason})
    receive(database, policies, failure(exception_type="E"), failure(exception_type="E"))

    (counted,) = shown(database, "v_failure_reasons")

    assert counted == {"reason": reason, "code": code, "count": 2}


def test_attempts_are_counted(database: Database) -> None:
    often = failure()
    receive(database, SomePolicies(), often, again(often), failure(), failure())

    counted = shown(database, "v_attempts")

    assert sorted((row["attempts"], row["message_count"]) for row in counted) == [(1, 2), (2, 1)]


def test_what_fails_again_and_again_is_a_candidate_for_poison(database: Database) -> None:
    often, seldom, dead = (failure() for _ in range(3))
    receive(database, SomePolicies(attempts=20), *[again(often) for _ in range(10)])
    receive(database, SomePolicies(attempts=20), *[again(seldom) for _ in range(9)])
    receive(database, SomePolicies(attempts=5), *[again(dead) for _ in range(12)])

    (candidate,) = shown(database, "v_poison_candidates")

    scheduled, created = candidate.pop("scheduled_for"), candidate.pop("created_at")
    assert {**candidate, "message_id": str(candidate["message_id"])} == {
        "message_id": unique_id(often),
        "destination": "orders",
        "event_type": "Shop.PlaceOrder",
        "attempts": 10,
        "error": "nothing left",
    }
    assert scheduled is not None
    assert str(created)[:19] == str(FAILED_AT)[:19]


def test_what_is_dealt_with_is_in_none_of_them(database: Database) -> None:
    failed = failure()
    receive(database, SomePolicies(attempts=50), *[again(failed) for _ in range(12)])
    manual = {"disposition": "manual", "retry_at": None}

    set_columns(database, unique_id(failed), status="archived", **manual)

    assert shown(database, "v_failure_reasons") == []
    assert shown(database, "v_attempts") == []
    assert shown(database, "v_poison_candidates") == []


def test_a_retry_that_is_issued_is_in_none_of_them(database: Database) -> None:
    # Given a scheduled message, whose retry a person asks for before its time
    bench = Bench(database)
    failed = failure(queue=QUEUE)
    receive(database, SomePolicies(attempts=50), *[again(failed) for _ in range(12)])
    (backlog,) = shown(database, "v_retry_backlog")
    assert backlog["scheduled_count"] == 1

    bench.ask([unique_id(failed)])
    bench.work()

    row = messages(database)[unique_id(failed)]
    assert (row["status"], row["disposition"]) == ("retry_issued", "manual")
    (backlog,) = shown(database, "v_retry_backlog")
    assert backlog["scheduled_count"] == 0
    assert shown(database, "v_failure_reasons") == []
    assert shown(database, "v_attempts") == []
    assert shown(database, "v_poison_candidates") == []


class TestTheFigures:
    def test_count_what_is_scheduled_and_dead(self, database: Database) -> None:
        receive(database, SomePolicies(), failure(), failure())
        receive(database, SomePolicies(attempts=1), failure())

        figures = read_figures(database)

        assert (figures.scheduled, figures.dead, figures.oldest_due) == (2, 1, None)

    def test_say_for_how_long_the_first_is_due(self, database: Database) -> None:
        receive(database, SomePolicies(delay=-5 * MINUTE), failure())
        receive(database, SomePolicies(delay=-MINUTE), failure())

        due = read_figures(database).oldest_due

        assert due is not None
        assert 5 * MINUTE <= due < 6 * MINUTE

    def test_are_nothing_in_an_empty_database(self, database: Database) -> None:
        figures = read_figures(database)

        assert (figures.scheduled, figures.dead, figures.oldest_due) == (0, 0, None)
