"""What stands when a message fails again: the whole truth table."""

from datetime import UTC, datetime
from itertools import product

import pytest

from retrier.domain.decision import Dead, Decision, Manual, RetryAt
from retrier.domain.failed_message import FailedMessageStatus, LastWord, Resolution
from retrier.domain.recording import Known, Standing, Stands, last_word, what_stands

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
WORDS = (None, *LastWord)
UNRESOLVED, ISSUED, RESOLVED, ARCHIVED = (
    FailedMessageStatus.UNRESOLVED,
    FailedMessageStatus.RETRY_ISSUED,
    FailedMessageStatus.RESOLVED,
    FailedMessageStatus.ARCHIVED,
)
WAITS = Manual()
LEFT = Manual(why="gives up, and leaves it to a person", policy="rest@1")
REVERTED = Manual(why="the broker said no")
PLANNED = RetryAt(at=NOON, why="failed once", policy="rest@1")
DEAD = Dead(why="declared dead by ada: closed")
DECISIONS: tuple[Decision, ...] = (WAITS, LEFT, REVERTED, PLANNED, DEAD)


def known(
    status: FailedMessageStatus,
    resolution: Resolution | None = None,
    word: LastWord | None = None,
) -> Known:
    return Known(
        status=status,
        claim=None,
        last_failure=NOON,
        resolution=resolution,
        confirmed_at=None,
        word=word,
    )


class TestAnOpenMessage:
    def test_keeps_whatever_was_decided_after_a_person_said_something(self) -> None:
        for word, is_copy, decision in product(LastWord, (False, True), DECISIONS):
            standing = Standing(status=UNRESOLVED, word=word, is_copy=is_copy)

            assert what_stands(standing, decision) is Stands.DECISION, (word, is_copy, decision)

    def test_keeps_whatever_was_decided_when_a_counted_retry_fails_once_more(self) -> None:
        for decision in DECISIONS:
            standing = Standing(status=UNRESOLVED, is_copy=True)

            assert what_stands(standing, decision) is Stands.DECISION, decision

    @pytest.mark.parametrize(
        ("decision", "stands"),
        [
            (WAITS, Stands.NOTHING),
            (REVERTED, Stands.NOTHING),
            (PLANNED, Stands.NOTHING),
            (LEFT, Stands.DECISION),
            (DEAD, Stands.DECISION),
        ],
    )
    def test_keeps_else_only_that_it_was_given_up(self, decision: Decision, stands: Stands) -> None:
        assert what_stands(Standing(status=UNRESOLVED), decision) is stands


class TestAMessageThatWasClosedOrSent:
    def test_is_for_a_person_after_a_word_or_a_second_copy(self) -> None:
        for status, word, is_copy in product((ISSUED, RESOLVED, ARCHIVED), WORDS, (False, True)):
            standing = Standing(status=status, word=word, is_copy=is_copy)
            said = word is not None or is_copy

            wanted = Stands.WORD if said else Stands.NOTHING
            assert what_stands(standing, WAITS) is wanted, standing


def test_another_message_under_its_retry_is_for_a_person_after_a_word() -> None:
    for status, word, is_copy, decision in product(
        FailedMessageStatus, WORDS, (False, True), DECISIONS
    ):
        standing = Standing(status=status, word=word, is_copy=is_copy, of="m")

        wanted = Stands.NOTHING if word is None else Stands.WORD
        assert what_stands(standing, decision) is wanted, standing


@pytest.mark.parametrize("word", WORDS)
class TestTheLastWord:
    def test_is_ended_by_a_retry(self, word: LastWord) -> None:
        assert last_word(known(ISSUED, word=word)) is None

    def test_outlasts_a_failure_and_a_confirmation(self, word: LastWord) -> None:
        assert last_word(known(UNRESOLVED, word=word)) is word
        assert last_word(known(RESOLVED, Resolution.CONFIRMED, word)) is word

    def test_stays_while_the_message_is_closed(self, word: LastWord) -> None:
        assert last_word(known(RESOLVED, Resolution.BY_HAND, word)) is word
        assert last_word(known(ARCHIVED, word=word)) is word
