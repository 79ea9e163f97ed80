"""What overrules a rule: a message that may be a copy, and a retry that was reverted."""

from datetime import UTC, datetime

import pytest

from retrier.domain.decision import Dead, Decision, Judgement, Manual, RetryAt
from retrier.domain.retry_batch import Ejected
from retrier.policy.overruling import judge_revert, unless_copy

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
RETRY = RetryAt(at=NOON, why="failed once", policy="rest@1")
DEAD = Dead(why="failed twice", policy="rest@1")
WAITS = Manual()


def judged(decision: Decision) -> Judgement:
    return Judgement(reason="unknown", decision=decision)


def reverted(reason: str = "the broker said no", *, hopeless: bool = False) -> Ejected:
    return Ejected(number=1, unique_message_id="m", reason=reason, hopeless=hopeless)


class TestAMessageThatMayBeACopy:
    def test_is_not_retried_by_itself(self) -> None:
        decision = unless_copy(judged(RETRY), "another").decision

        assert isinstance(decision, Manual)
        assert "another" in (decision.why or "")
        assert decision.policy == RETRY.policy

    @pytest.mark.parametrize("decision", [DEAD, WAITS])
    def test_is_otherwise_as_it_was_decided(self, decision: Decision) -> None:
        assert unless_copy(judged(decision), "another") == judged(decision)

    def test_is_none_without_another(self) -> None:
        assert unless_copy(judged(RETRY), None) == judged(RETRY)


class TestARevertedRetry:
    @pytest.mark.parametrize("decision", [RETRY, DEAD])
    def test_says_what_the_broker_said_and_what_was_decided(self, decision: Decision) -> None:
        found = judge_revert(judged(decision), reverted(), configured=True).decision

        assert found.why == f"the broker said no; {decision.why}"
        assert found.policy == decision.policy

    def test_that_waits_says_what_the_broker_said(self) -> None:
        found = judge_revert(judged(WAITS), reverted(), configured=False).decision

        assert found == Manual(why="the broker said no")

    def test_leaves_room_for_what_was_decided(self) -> None:
        found = judge_revert(judged(RETRY), reverted("x" * 2000), configured=True).decision

        assert found.why is not None
        assert found.why.endswith("; failed once")
        assert len(found.why) < 1024

    def test_is_dead_if_it_could_never_go(self) -> None:
        found = judge_revert(judged(RETRY), reverted(hopeless=True), configured=True).decision

        assert found == Dead(why="the broker said no", policy="rest@1")

    def test_is_left_to_a_person_if_nobody_made_policies(self) -> None:
        found = judge_revert(judged(WAITS), reverted(hopeless=True), configured=False).decision

        assert found == Manual(why="the broker said no")
