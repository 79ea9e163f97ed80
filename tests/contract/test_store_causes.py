"""Causes: one for all failures that look alike to the classifiers, however many there are."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from sqlalchemy import delete, event

from retrier.domain.failed_message import Failure
from retrier.store.engine.database import Database
from retrier.store.schema import cause_groups, causes, failed_messages, processing_attempts
from retrier.store.verification import verify_store
from tests.contract.store_rows import again, messages, only_message, record, rows
from tests.contract.test_store_concurrency import count_waiting
from tests.support.databases import empty
from tests.support.factories import failure
from tests.support.halting import DEADLINE, halted
from tests.support.waiting import wait_until

TRACE = "Shop.OutOfStock: nothing left\n   at Shop.Stock.Take(String item)"
ALIKE: dict[str, dict[str, object]] = {
    "the message of the exception": {"exception_message": "nothing left of 4711"},
    "a line number": {"stack_trace": TRACE + " in /src/Stock.cs:line 99"},
    "a lower frame": {"stack_trace": TRACE + "\n   at Shop.Program.Main()"},
    "the body": {"body": b"another"},
    "the headers": {"headers": {"Shop.Tenant": "south"}},
    "the sender's time": {"time_sent": None},
    "the time of failure": {"time_of_failure": None},
    "the stream": {"stream_id": "customer 7"},
    "the attempts": {"attempts_reported": 7},
    "the completed steps": {"completed_steps": '["reserve"]'},
}
"""What no title shows of a failure."""
APART: dict[str, dict[str, object]] = {
    "queue": {"queue": "other", "destination": "orders"},
    "destination": {"destination": "other"},
    "endpoint": {"endpoint": "Billing"},
    "no endpoint": {"endpoint": None},
    "message type": {"message_type": "Shop.CancelOrder"},
    "exception type": {"exception_type": "Shop.Closed"},
    "reason": {"failure_reason": "rejected"},
    "first frame": {"stack_trace": TRACE.replace("Take", "Give")},
}
MANY = 1_000


@pytest.fixture
def postgres(shared_postgres: Database) -> Database:
    """Give the PostgreSQL database of the run, empty."""
    empty(shared_postgres)
    return shared_postgres


@contextmanager
def rollbacks(db: Database) -> Iterator[list[int]]:
    """Note the transactions that are given up."""
    seen: list[int] = []

    def listen(_conn: object) -> None:
        seen.append(1)

    event.listen(db.engine, "rollback", listen)
    yield seen
    event.remove(db.engine, "rollback", listen)


def cause_ids(db: Database) -> set[int]:
    return {row["cause_id"] for row in messages(db).values()}


def broken_rules(db: Database) -> list[str]:
    return [rule.rule for rule in verify_store(db).rules if rule.broken]


@pytest.mark.parametrize("difference", ALIKE.values(), ids=ALIKE.keys())
def test_failures_that_differ_in_what_no_title_shows_share_a_cause(
    database: Database, difference: dict[str, object]
) -> None:
    record(database, failure(stack_trace=TRACE), failure(**({"stack_trace": TRACE} | difference)))

    assert len(cause_ids(database)) == 1
    assert len(rows(database, causes)) == 1


@pytest.mark.parametrize("difference", APART.values(), ids=APART.keys())
def test_failures_that_differ_in_what_a_classifier_looks_at_have_causes_of_their_own(
    database: Database, difference: dict[str, object]
) -> None:
    record(database, failure(stack_trace=TRACE), failure(**({"stack_trace": TRACE} | difference)))

    assert len(cause_ids(database)) == 2


def test_a_cause_that_is_known_is_found_again(database: Database) -> None:
    for _ in range(3):
        record(database, failure(), failure(exception_type="Other"))

    assert len(cause_ids(database)) == 2
    assert len(rows(database, causes)) == 2


def test_a_cause_keeps_what_its_failures_have_in_common(database: Database) -> None:
    made = failure(failure_reason="rejected", destination="orders.in")

    record(database, made)

    (cause,) = rows(database, causes)
    names = ("queue", "destination", "endpoint", "message_type", "exception_type", "failure_reason")
    assert {name: cause[name] for name in names} == {n: getattr(made.details, n) for n in names}
    assert cause["exception_message"] == "nothing left"
    assert cause["fingerprint"] == made.cause.fingerprint


def test_a_message_that_fails_of_another_cause_has_that_one(database: Database) -> None:
    first = failure()
    record(database, first)

    record(database, again(first, exception_type="Other"))

    earlier, later = rows(database, processing_attempts)
    assert only_message(database)["cause_id"] == later["cause_id"] != earlier["cause_id"]
    assert only_message(database)["exception_type"] == "Other"


def test_traces_that_differ_for_each_failure_make_a_cause_each(database: Database) -> None:
    made = [failure(stack_trace=f"Shop.Lost: {n}\n   at Shop.Lost{n}.Find()") for n in range(MANY)]

    record(database, *made)

    assert len(cause_ids(database)) == MANY
    assert len(rows(database, cause_groups)) == 4 * MANY
    assert broken_rules(database) == []


@pytest.mark.postgres
class TestACauseThatIsDeletedAtTheSameMoment:
    """By whoever finds that no message has it any more."""

    @pytest.fixture
    def unused(self, postgres: Database) -> int:
        """Give a cause that no message has."""
        record(postgres, failure())
        with postgres.engine.begin() as conn:
            for table in (processing_attempts, failed_messages):
                conn.execute(delete(table))
        (cause,) = rows(postgres, causes)
        number: int = cause["cause_id"]
        return number

    def is_stored_under_another(self, db: Database, unused: int, stored: Failure) -> bool:
        row = only_message(db)
        return row["message_id"] == stored.message_id and row["cause_id"] > unused

    def test_is_added_again_by_a_failure_that_has_found_it(
        self, postgres: Database, slow: ThreadPoolExecutor, unused: int
    ) -> None:
        new = failure()
        with rollbacks(postgres) as given_up, halted(postgres, "FROM causes") as (reached, go_on):
            recording = slow.submit(record, postgres, new)
            assert reached.wait(DEADLINE)
            with postgres.engine.begin() as conn:
                conn.execute(delete(causes))
            go_on.set()
            recording.result(DEADLINE)

        assert self.is_stored_under_another(postgres, unused, new)
        assert len(given_up) == 1

    def test_is_waited_for_by_a_failure_that_needs_it(
        self, postgres: Database, slow: ThreadPoolExecutor, unused: int
    ) -> None:
        new = failure()
        with postgres.engine.begin() as conn:
            conn.execute(delete(causes))
            recording = slow.submit(record, postgres, new)
            wait_until(lambda: count_waiting(postgres) == 1, DEADLINE)
        recording.result(DEADLINE)

        assert self.is_stored_under_another(postgres, unused, new)
