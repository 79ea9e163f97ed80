"""The second look: what a time makes final waits until two looks, long apart, agree."""

from datetime import UTC, datetime, timedelta

import pytest

from retrier.domain.retention import SecondLook

HOUR = timedelta(hours=1)
BEGIN = datetime(2026, 5, 4, 13, 0, tzinfo=UTC)


@pytest.fixture
def looks() -> SecondLook:
    return SecondLook(HOUR)


def look(looks: SecondLook, minutes: float, ahead: timedelta = timedelta(0)) -> None:
    """Let so many minutes have passed, with a database whose clock is ahead."""
    looks.note(minutes * 60, BEGIN + timedelta(minutes=minutes) + ahead)


def test_nothing_is_agreed_before_the_first_look(looks: SecondLook) -> None:
    assert looks.agreed is None


def test_nothing_is_agreed_while_the_first_look_is_younger_than_an_hour(looks: SecondLook) -> None:
    look(looks, 0)
    look(looks, 59)

    assert looks.agreed is None


def test_after_an_hour_the_time_of_the_first_look_is_agreed(looks: SecondLook) -> None:
    for minutes in (0, 30, 60):
        look(looks, minutes)

    assert looks.agreed == BEGIN


def test_the_agreed_time_goes_on_with_the_looks(looks: SecondLook) -> None:
    for minutes in range(0, 181, 10):
        look(looks, minutes)

    assert looks.agreed == BEGIN + 2 * HOUR


def test_a_clock_that_is_ahead_now_changes_nothing(looks: SecondLook) -> None:
    look(looks, 0)
    look(looks, 60, ahead=timedelta(days=11))

    assert looks.agreed == BEGIN


def test_a_clock_that_was_ahead_an_hour_ago_is_not_believed(looks: SecondLook) -> None:
    look(looks, 0, ahead=timedelta(days=11))
    look(looks, 1)
    look(looks, 60)

    assert looks.agreed == BEGIN + timedelta(minutes=1)


def test_a_clock_that_is_ahead_twice_is_not_believed(looks: SecondLook) -> None:
    look(looks, 0, ahead=timedelta(days=11))
    look(looks, 30)
    look(looks, 60, ahead=timedelta(days=11))

    assert looks.agreed == BEGIN + timedelta(minutes=30)


def test_a_clock_that_was_set_right_for_good_is_believed_after_an_hour(looks: SecondLook) -> None:
    year = timedelta(days=365)
    look(looks, 0)
    for minutes in (1, 61):
        look(looks, minutes, ahead=year)

    assert looks.agreed == BEGIN + timedelta(minutes=1) + year
