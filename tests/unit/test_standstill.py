"""When a processor does not get on, and what it waits for: a function of its notes and the time."""

from dataclasses import replace

import pytest

from retrier.domain.processor_work import (
    STANDSTILL_AFTER,
    Cause,
    ForAlarm,
    ForBroker,
    ForConfirms,
    ForCopies,
    ForDatabase,
    ProgressNotes,
    Standstill,
    Wait,
    find_hang,
    find_standstill,
)

LOCKED = ProgressNotes(since=100.0, wait=ForDatabase(), waiting_since=101.0)


def find_cause(notes: ProgressNotes, now: float) -> Cause | None:
    standstill = find_standstill(notes, now)
    return None if standstill is None else standstill.cause


def test_a_processor_that_recorded_something_lately_gets_on() -> None:
    assert find_standstill(LOCKED, 100.0 + STANDSTILL_AFTER - 0.1) is None


def test_a_processor_without_progress_says_for_how_long_and_why() -> None:
    standstill = find_standstill(LOCKED, 118.4)

    assert standstill is not None
    assert standstill.reason == "no progress for 18 s: waits for the database"


def test_a_processor_for_which_nothing_may_move_gets_on_however_long_it_rests() -> None:
    assert find_standstill(ProgressNotes(), 100_000.0) is None


@pytest.mark.parametrize(
    ("wait", "words"),
    [
        (ForDatabase(), "waits for the database"),
        (ForBroker(), "waits for the broker to answer"),
        (ForAlarm(), "the broker blocks publishers (alarm)"),
        (ForAlarm("it is full"), "it is full"),
        (
            ForConfirms(frozenset({"orders"})),
            "waits for the broker to confirm what was sent to orders",
        ),
        (
            ForConfirms(frozenset("edcba")),
            "waits for the broker to confirm what was sent to a, b, c and 2 more",
        ),
        (ForCopies(), "copies vanish from the staging queue"),
    ],
)
def test_every_cause_has_its_words(wait: Cause, words: str) -> None:
    assert Standstill(seconds=15.0, cause=wait).reason == f"no progress for 15 s: {words}"


def test_one_question_that_is_not_answered_is_a_standstill() -> None:
    hang = find_hang(100.0, 118.0)

    assert hang == Standstill(seconds=18.0, cause=ForDatabase())
    assert find_hang(None, 118.0) is None


@pytest.mark.parametrize("wait", [None, ForDatabase(), ForBroker()])
def test_who_loses_copies_names_them_whatever_is_asked_in_between(wait: Wait | None) -> None:
    notes = ProgressNotes(since=100.0, wait=wait, waiting_since=119.0, loses_copies=True)

    assert find_cause(notes, 120.0) == ForCopies()


def test_who_lost_copies_and_hangs_on_something_else_now_names_that() -> None:
    notes = replace(LOCKED, loses_copies=True)

    assert find_cause(notes, 120.0) == ForDatabase()
