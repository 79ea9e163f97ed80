"""The rule of a stream is that of the policy at the last failure of each message."""

from datetime import timedelta

import pytest

from retrier.domain.streams import StreamRule
from retrier.policy.delays import Fixed
from retrier.policy.policy_set import Definition, Judge, Match, PolicySet, Rule
from retrier.store.engine.database import Database
from retrier.store.recording import record_received
from tests.contract.store_rows import again, only_message
from tests.support.factories import FAILED_AT, failure

LATER = FAILED_AT + timedelta(hours=1)


def judge_by(stream: StreamRule | None) -> Judge:
    """Judge by one rule with that key."""
    rule = Rule(
        name="all",
        match=Match(),
        attempts=1,
        backoff=Fixed(first=timedelta(seconds=1)),
        stream=stream,
    )
    policies = PolicySet(Definition(rules=(rule,)))
    return Judge(in_force=lambda: policies, dice=lambda: 0.0)


@pytest.mark.parametrize("rule", [StreamRule.STRICT, StreamRule.RELEASE, None])
def test_is_stored_with_the_failure(database: Database, rule: StreamRule | None) -> None:
    record_received(database, [failure(stream_id="7")], instance="here", judge=judge_by(rule))

    assert only_message(database)["stream_rule"] == rule


def test_is_judged_anew_at_each_failure(database: Database) -> None:
    first = failure(stream_id="7")
    record_received(database, [first], instance="here", judge=judge_by(StreamRule.STRICT))

    newer = again(first, stream_id="7", time_of_failure=LATER)
    record_received(database, [newer], instance="here", judge=judge_by(StreamRule.RELEASE))

    assert only_message(database)["stream_rule"] == "release"


def test_holds_for_a_message_that_has_lost_its_header(database: Database) -> None:
    first = failure(stream_id="7")
    record_received(database, [first], instance="here", judge=judge_by(StreamRule.STRICT))

    record_received(
        database,
        [again(first, time_of_failure=LATER)],
        instance="here",
        judge=judge_by(StreamRule.STRICT),
    )

    assert only_message(database)["stream_id"] == "7"
    assert only_message(database)["stream_rule"] == "strict"


def test_is_not_stored_of_a_message_without_a_stream(database: Database) -> None:
    first = failure()
    record_received(database, [first], instance="here", judge=judge_by(StreamRule.STRICT))
    record_received(
        database,
        [again(first, time_of_failure=LATER)],
        instance="here",
        judge=judge_by(StreamRule.STRICT),
    )

    assert only_message(database)["stream_rule"] is None
