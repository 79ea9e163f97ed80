"""Where in time an outcome counts."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from retrier.domain.breakers import CAME_BACK, CONFIRMED, SENT, SentCounts, add_up, begin_of

CHANGED = datetime(2026, 7, 1, 12, 0, 0, 500, tzinfo=UTC)
GRAIN = timedelta(seconds=6)
pauses = st.timedeltas(timedelta(0), timedelta(days=1))
grains = st.timedeltas(timedelta(milliseconds=1), timedelta(hours=1))


def test_what_was_sent_before_the_last_change_does_not_count() -> None:
    assert begin_of(CHANGED - timedelta(microseconds=1), GRAIN, CHANGED) is None


def test_what_was_sent_in_its_moment_does() -> None:
    assert begin_of(CHANGED, GRAIN, CHANGED) == CHANGED


@given(pauses, grains)
def test_a_part_of_time_begins_at_most_its_length_before_and_never_before_the_change(
    pause: timedelta, grain: timedelta
) -> None:
    sent_at = CHANGED + pause

    begin = begin_of(sent_at, grain, CHANGED)

    assert begin is not None
    assert CHANGED <= begin <= sent_at < begin + grain


@given(pauses, pauses, grains)
def test_what_was_sent_before_a_later_change_begins_before_it(
    pause: timedelta, more: timedelta, grain: timedelta
) -> None:
    # Who counts has not seen the later change: its row must not count after that.
    begin = begin_of(CHANGED + pause, grain, CHANGED)

    later = CHANGED + pause + more + timedelta(microseconds=1)
    assert begin is not None
    assert begin < later


def test_outcomes_are_added_up_by_breaker_and_time_in_their_order() -> None:
    moment, other = (1, CHANGED), (2, CHANGED)

    found = add_up([(moment, SENT), (moment, CAME_BACK), (other, SENT), (moment, CONFIRMED)])

    assert found == {
        moment: SentCounts(sent=1, came_back=1, confirmed=1, outcomes="fc"),
        other: SentCounts(sent=1),
    }
