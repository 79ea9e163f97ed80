"""Verification finds decisions that are not what policies decide."""

from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import Table, update

from retrier.store.engine.database import Database
from retrier.store.recording import record_received
from retrier.store.schema import failed_messages, processing_attempts
from retrier.store.verification import verify_store
from retrier.store.verification_rules import POLICY_RULES
from tests.support.factories import failure
from tests.support.policies import SomePolicies

SCHEDULED = "a message that is scheduled names the policy that decided"
COPY = "a message that may be a copy of another is not scheduled"
WORD = "a message with a person's last word is neither scheduled nor on its way"
SETTLED = "a message that is not unresolved has no decision"
COUNTED = "a message about which a policy decided counts a failure"
ATTEMPT = "an attempt has its decision with a count, and the time of a retry if it is scheduled"
NOBODY = "00000000-0000-4000-8000-000000000000"

BENT: Mapping[str, list[tuple[Table, dict[str, Any]]]] = {
    SCHEDULED: [(failed_messages, {"policy": None})],
    COPY: [(failed_messages, {"maybe_copy_of": NOBODY})],
    WORD: [(failed_messages, {"last_word": "dead"})],
    SETTLED: [
        (failed_messages, {"status": "archived", "disposition": "manual", "retry_at": None}),
        (
            failed_messages,
            {"status": "archived", "disposition": "manual", "retry_at": None, "policy": None},
        ),
    ],
    COUNTED: [(failed_messages, {"failure_count": 0})],
    ATTEMPT: [
        (processing_attempts, {"failure_count": None}),
        (processing_attempts, {"disposition": None, "retry_at": None}),
        (processing_attempts, {"retry_at": None}),
        (processing_attempts, {"policy": None}),
        (processing_attempts, {"disposition": "dead"}),
    ],
}
CASES = [(rule, *bend) for rule, bends in BENT.items() for bend in bends]


@pytest.fixture
def judged(database: Database) -> Database:
    """Give a database with a message that is scheduled, one that is dead, and one that waits."""
    for policies in (SomePolicies(), SomePolicies(attempts=1), SomePolicies(then_manual=True)):
        record_received(database, [failure()], instance="here", judge=policies.judging())
    return database


def broken(db: Database) -> list[str]:
    return [each.rule for each in verify_store(db).rules if each.broken]


def test_nothing_is_off_where_policies_decided(judged: Database) -> None:
    assert broken(judged) == []


def test_nothing_is_off_where_nothing_was_decided(database: Database) -> None:
    record_received(database, [failure()], instance="here")

    assert broken(database) == []


@pytest.mark.parametrize(("rule", "table", "values"), CASES)
def test_what_is_bent_is_found(
    judged: Database, rule: str, table: Table, values: dict[str, Any]
) -> None:
    with judged.engine.begin() as conn:
        scheduled = table.c.disposition == "scheduled"
        assert conn.execute(update(table).where(scheduled).values(**values)).rowcount

    assert broken(judged) == [rule]


def test_every_rule_is_bent_here() -> None:
    assert set(BENT) == set(POLICY_RULES)
