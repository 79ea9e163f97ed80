"""The board that says whether the service is ready."""

from datetime import timedelta

import pytest

from retrier.app.readiness import ReadinessBoard, describe_database
from retrier.store.words import WordLag
from tests.support.factories import FAILED_AT


def test_a_part_is_as_it_was_last_noted() -> None:
    board = ReadinessBoard()
    board.put("broker", ready=False, reason="refused")
    board.put("broker", ready=True, reason="reached")

    assert board.read() == {"broker": (True, "reached")}


def test_a_watched_part_is_asked_each_time() -> None:
    answers = iter([(False, "starting"), (True, "consuming")])
    board = ReadinessBoard()
    board.watch("ingestion", lambda: next(answers))

    assert [board.read()["ingestion"], board.read()["ingestion"]] == [
        (False, "starting"),
        (True, "consuming"),
    ]


@pytest.mark.parametrize(
    ("imports", "words"),
    [
        (0, "reached"),
        (1, "reached; 1 message could not be read: `retrier imports list`"),
        (12, "reached; 12 messages could not be read: `retrier imports list`"),
    ],
)
def test_what_could_not_be_read_is_told_beside_a_database_that_is_ready(
    imports: int, words: str
) -> None:
    assert describe_database(imports) == words


def test_a_recovery_is_told_beside_a_database_that_is_ready() -> None:
    assert describe_database(0, recovering=True) == (
        "reached; a recovery is under way, and nothing is presumed: `retrier recover`"
    )


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(60, "reached"), (61, "reached; full text does not find what failed in the last 61 s")],
)
def test_words_that_are_behind_are_told_from_a_minute_on(seconds: int, words: str) -> None:
    lag = WordLag(waiting=1, backlog=0, since=FAILED_AT, now=FAILED_AT + timedelta(seconds=seconds))

    assert describe_database(0, words=lag) == words
