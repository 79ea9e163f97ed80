"""What overrules a rule: what stood before, a message that may be a copy, a reverted retry."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from retrier.domain.decision import AGAIN, Dead, Decision, Judgement, Manual, RetryAt
from retrier.domain.failed_message import FailedMessageStatus, LastWord
from retrier.domain.recording import Standing
from retrier.domain.retry_batch import Ejected
from retrier.domain.text import COLUMN_BYTES
from retrier.policy.policy_set import judge_revert, unless_copy, unless_stands

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
RETRY = RetryAt(at=NOON, why="failed once", policy="rest@1")
DEAD = Dead(why="failed twice", policy="rest@1")
WAITS = Manual()
OPEN = Standing(status=FailedMessageStatus.UNRESOLVED)
COPY = Standing(status=FailedMessageStatus.UNRESOLVED, is_copy=True)


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

    def test_is_left_to_a_person_if_nothing_says_where_it_goes(self) -> None:
        nowhere = replace(reverted("no destination is known"), unknown=True)

        found = judge_revert(judged(RETRY), nowhere, configured=True).decision

        assert found == Manual(why="no destination is known", policy="rest@1")

    def test_is_left_to_a_person_if_nobody_made_policies(self) -> None:
        found = judge_revert(judged(WAITS), reverted(hopeless=True), configured=False).decision

        assert found == Manual(why="the broker said no")


class TestAMessageThatFailsAgain:
    def test_is_judged_if_nothing_stands(self) -> None:
        assert unless_stands(judged(RETRY), OPEN, judged(WAITS)) == judged(RETRY)

    def test_stays_dead_with_its_words_and_its_reason(self) -> None:
        dead = Judgement(reason="poison_message", decision=DEAD)

        found = unless_stands(judged(RETRY), OPEN, dead)

        assert found.decision == Dead(why=f"failed twice{AGAIN}", policy="rest@1")
        assert (found.reason, found.failure_reason) == ("poison_message", "unknown")

    def test_says_only_once_that_it_failed_again(self) -> None:
        once = unless_stands(judged(RETRY), OPEN, judged(DEAD))

        assert unless_stands(judged(RETRY), OPEN, once).decision == once.decision

    def test_has_room_for_saying_so(self) -> None:
        dead = judged(Dead(why="\u00e4" * COLUMN_BYTES))

        why = unless_stands(judged(RETRY), OPEN, dead).decision.why or ""

        assert why.endswith(AGAIN)
        assert len(why.encode()) <= COLUMN_BYTES

    @pytest.mark.parametrize("before", [RETRY, WAITS])
    def test_keeps_its_plan_where_only_a_second_copy_failed(self, before: Decision) -> None:
        found = unless_stands(judged(DEAD), COPY, judged(before))

        assert found.decision == before
        assert found.stands

    def test_keeps_the_reason_of_its_newest_failure_unless_it_is_dead(self) -> None:
        before = Judgement(reason="timeout_exceeded", decision=RETRY)

        assert unless_stands(judged(DEAD), COPY, before).reason == "unknown"

    @pytest.mark.parametrize(
        ("word", "said"),
        [
            (LastWord.DEAD, "declared it dead"),
            (LastWord.ARCHIVED, "archived it"),
            (LastWord.RESOLVED, "resolved it"),
        ],
    )
    def test_is_for_a_person_who_had_closed_it(self, word: LastWord, said: str) -> None:
        closed = Standing(status=FailedMessageStatus.RESOLVED, word=word)

        found = unless_stands(judged(RETRY), closed, judged(WAITS)).decision

        words = f"a person had {said}, and it failed again, so a person decides"
        assert found == Manual(why=words)

    def test_is_for_a_person_if_a_second_copy_opens_it(self) -> None:
        closed = Standing(status=FailedMessageStatus.RESOLVED, is_copy=True)

        found = unless_stands(judged(RETRY), closed, judged(WAITS)).decision

        assert found == Manual(
            why="a second copy of a retry that had failed before failed, too, so a person decides"
        )

    def test_is_for_a_person_if_its_origin_was_closed(self) -> None:
        origin = Standing(status=FailedMessageStatus.ARCHIVED, word=LastWord.ARCHIVED, of="m1")

        found = unless_stands(judged(RETRY), origin, judged(RETRY)).decision

        words = "a person had archived m1, and it came under a retry of that, so a person decides"
        assert found == Manual(why=words)
