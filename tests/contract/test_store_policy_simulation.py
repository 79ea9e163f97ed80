"""Stored failures are judged anew by other policies, and nothing is changed."""

from datetime import timedelta

import pytest
from sqlalchemy import Connection, event, select, update

from retrier.domain.failed_message import Disposition
from retrier.errors import DatabaseUnavailable
from retrier.policy.classification import ReasonRule
from retrier.policy.delays import Fixed
from retrier.policy.policy_set import Definition, Judge, Match, PolicySet, Rule
from retrier.policy.simulation import RuleDecision
from retrier.store.engine.database import Database
from retrier.store.policies import Bounds, SimulatedBefore, simulate_policies
from retrier.store.recording import record_received
from retrier.store.schema import failed_messages, processing_attempts
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from tests.support.factories import failure
from tests.support.raw_messages import (
    delivery,
    nservicebus_headers,
    rabbitmq_headers,
    retrier_headers,
)
from tests.support.understood import failure as understood

CODEC = AmqpPropertyCodec()
BACKOFF = Fixed(first=timedelta(seconds=1))
ALL = timedelta(days=3650)
TWICE = PolicySet(
    Definition(rules=(Rule(name="twice", match=Match(), attempts=2, backoff=BACKOFF),))
)


def receive(db: Database, *failures: object) -> None:
    for each in failures:
        record_received(db, [each], instance="test")


def simulate(
    db: Database, policies: PolicySet = TWICE, since: timedelta = ALL, **more: object
) -> SimulatedBefore:
    return simulate_policies(db, policies, CODEC, Bounds(since=since, **more))


def verdicts(found: SimulatedBefore) -> dict[Disposition | None, int]:
    return {change.new.decision: count for change, count in found.found.counts.items()}


def change_attempts(db: Database, **values: object) -> None:
    with db.engine.begin() as conn:
        conn.execute(update(processing_attempts).values(**values))


def test_each_failure_is_judged_by_its_count(database: Database) -> None:
    receive(database, *(failure(message_id="m") for _ in range(3)), failure())

    found = simulate(database)

    assert found.found.judged == 4
    assert found.stopped is None
    assert verdicts(found) == {Disposition.DEAD: 2, Disposition.SCHEDULED: 2}


def test_the_count_of_then_decides(database: Database) -> None:
    receive(database, *(failure(message_id="m") for _ in range(3)))
    change_attempts(database, reason="unknown", failure_count=1)

    assert verdicts(simulate(database)) == {Disposition.SCHEDULED: 3}


def test_a_failure_that_changed_nothing_is_not_judged(database: Database) -> None:
    receive(database, failure())
    change_attempts(database, reason="unknown", failure_count=None)

    assert simulate(database).found.judged == 0


def test_what_was_decided_stands_beside_it(database: Database) -> None:
    receive(database, failure())
    change_attempts(
        database,
        reason="unknown",
        failure_count=5,
        disposition="scheduled",
        policy="outbox@1a2b3c4d",
    )

    (change,) = simulate(database).found.counts

    assert change.old == RuleDecision(rule="outbox", decision=Disposition.SCHEDULED)
    assert change.new == RuleDecision(rule="twice", decision=Disposition.DEAD)


def test_only_the_newest_are_judged(database: Database) -> None:
    receive(database, *(failure(queue=f"q{number}") for number in range(5)))

    found = simulate(database, most=2)

    assert found.found.judged == 2
    assert found.stopped == "after the newest 2 failures"
    assert {each.failure.facts.queue for each in found.found.samples} == {"q3", "q4"}


def test_it_stops_when_its_time_is_over(database: Database) -> None:
    receive(database, failure())
    seconds = iter([0.0, 31.0])

    found = simulate(database, seconds=lambda: next(seconds))

    assert found.stopped == "after 30 seconds"


def test_what_is_older_is_left_out(database: Database) -> None:
    receive(database, failure())

    assert simulate(database, since=timedelta(seconds=1)).found.judged == 0


def test_many_are_read_in_chunks(database: Database) -> None:
    record_received(database, [failure() for _ in range(1000)], instance="test")
    receive(database, failure())

    assert simulate(database).found.judged == 1001


def test_the_whole_message_and_the_headers_are_judged(database: Database) -> None:
    rule = ReasonRule(reason="busy", exception=("*",), message="2 s")
    policies = PolicySet(Definition(classify=(rule,), rules=TWICE.definition.rules))
    receive(
        database,
        failure(exception_type="A", exception_message="wait 2 s"),
        failure(exception_type="A", exception_message="wait 3 s"),
        failure(headers={"x-caf-worker-retry": 11}),
        failure(headers={"x-caf-worker-rejected": "TASKMESSAGE_INVALID"}),
        failure(exception_type="Error", stack_trace="[cause]: TimeoutError: no"),
    )

    reasons = [each.reason for each in simulate(database, policies).found.samples]

    assert sorted(reasons) == [
        "busy",
        "handler_exception",
        "invalid_message",
        "poison_message",
        "timeout_exceeded",
    ]


SAID: tuple[dict[str, object], ...] = (
    {"x-caf-worker-retry": 11},
    {"x-caf-worker-retry": "11"},
    {"x-caf-worker-retry": b"11"},
    {"x-caf-worker-retry": "10"},
    {"x-caf-worker-retry": True},
    {"x-caf-worker-retry": "1" * 50},
    {"x-caf-worker-rejected": "RETRIES_EXCEEDED"},
    {"x-caf-worker-rejected": b"RETRIES_EXCEEDED"},
    {"x-caf-worker-rejected": "TASKMESSAGE_INVALID\0"},
    {"Retrier.Reason": b"expired"},
    {"Retrier.Reason": 4},
    {"Retrier.Exception.Type": b"TimeoutError"},
    {"Retrier.Exception.Type": "T" * 2000},
    {"Retrier.Exception.Type": "Error", "Retrier.Exception.StackTrace": "[cause]: TimeoutError: x"},
    {"Retrier.Exception.Message": "wait 2 s"},
    {"Retrier.Exception.Message": "x" * 70_000 + " 2 s"},
    {"x-delivery-count": "40"},
    {"x-acquired-count": 40},
)
"""What failures say, as clients of any language write it."""
LIVE = PolicySet(
    Definition(
        classify=(
            ReasonRule(reason="busy", message="2 s"),
            ReasonRule(reason="late", failure_reason=("expired",)),
        ),
        rules=(
            Rule(
                name="poison", match=Match(reason=("poison_message",)), attempts=0, backoff=BACKOFF
            ),
            Rule(name="long", match=Match(exception=("T*",)), attempts=3, backoff=BACKOFF),
            Rule(
                name="late", match=Match(reason=("late", "4", "busy")), attempts=4, backoff=BACKOFF
            ),
            *TWICE.definition.rules,
        ),
    )
)


def test_what_was_decided_is_what_a_simulation_of_the_same_policies_says(
    database: Database,
) -> None:
    # Given failures of all dialects with whatever headers may say, that were judged as they came
    judge = Judge(in_force=lambda: LIVE, dice=lambda: 0.5)
    dialects = (retrier_headers(), nservicebus_headers(), rabbitmq_headers())
    arrived = [
        delivery({**headers, **said}, message_id=f"{kind}-{number}")
        for kind, headers in enumerate(dialects)
        for number, said in enumerate(SAID)
    ]
    nameless = delivery(retrier_headers(), redelivered=True)
    for each in (*arrived, *arrived, nameless, nameless, nameless):
        record_received(database, [understood(each)], instance="test", judge=judge)

    # When the same policies are simulated
    found = simulate(database, LIVE).found

    # Then nothing changes, and all that made a difference was there
    assert [change for change in found.counts if change.old != change.new] == []
    rules = {change.old.rule for change in found.counts}
    assert rules == {"poison", "long", "late", "twice"}
    assert found.judged > len(arrived)


def test_a_simulation_cannot_write(database: Database) -> None:
    # Given something that writes in the midst of a simulation
    receive(database, failure())
    tried: list[str] = []

    def write(conn: Connection, _cursor: object, statement: str, *_: object) -> None:
        if "raw_properties" in statement and not tried:
            tried.append(statement)
            conn.exec_driver_sql("DELETE FROM processing_attempts")

    event.listen(database.engine, "before_cursor_execute", write)
    try:
        # When it runs, then it is refused
        with pytest.raises(DatabaseUnavailable):
            simulate(database)
    finally:
        event.remove(database.engine, "before_cursor_execute", write)

    # And nothing is gone
    assert len(tried) == 1
    assert simulate(database).found.judged == 1


def test_afterwards_the_connection_writes_as_before(database: Database) -> None:
    receive(database, failure())

    simulate(database)
    receive(database, failure())

    with database.engine.connect() as conn:
        assert len(conn.execute(select(failed_messages.c.number)).all()) == 2
