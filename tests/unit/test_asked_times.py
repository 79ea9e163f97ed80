"""The one reader of times that people write: durations, dates, ISO 8601, and what is refused."""

from datetime import UTC, datetime, timedelta

import pytest

from retrier.domain.times import (
    NoTime,
    TimeOutOfBounds,
    as_sentence,
    last_moment_of,
    read_duration,
    read_moment,
)

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("30s", 30), ("5m", 300), ("2h", 7200), ("7d", 7 * 86400)],
)
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert read_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2h", NOW - timedelta(hours=2)),
        ("2026-05-04", datetime(2026, 5, 4, tzinfo=UTC)),
        ("2026-05-04T11:30", datetime(2026, 5, 4, 11, 30, tzinfo=UTC)),
        ("2026-05-04 11:30:00.000001Z", datetime(2026, 5, 4, 11, 30, 0, 1, tzinfo=UTC)),
        ("2026-05-04T11:30:00+02:00", datetime(2026, 5, 4, 9, 30, tzinfo=UTC)),
    ],
)
def test_a_time_is_how_long_ago_a_date_or_a_moment(text: str, moment: datetime) -> None:
    assert read_moment(text, NOW) == moment


def test_what_is_to_come_counts_forward() -> None:
    assert read_moment("2h", NOW, coming=True) == NOW + timedelta(hours=2)


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("2 hours", "2h"),
        ("2 hours ago", "2h"),
        ("90min", "90m"),
        ("last 3 days", "3d"),
        ("1 week", "7d"),
        ("2H", "2h"),
        ("\u0663h", "3h"),
        ("yesterday", "2026-05-03"),
        ("today", "2026-05-04"),
        ("04.05.2026", "2026-05-04"),
        ("2026/5/4 9:30", "2026-05-04T09:30Z"),
        ("2026-05-04 12:00:00 UTC", "2026-05-04T12:00:00Z"),
        ("1777896000", "2026-05-04T12:00:00Z"),
    ],
)
def test_what_is_none_is_refused_with_the_nearest_that_is(text: str, nearest: str) -> None:
    with pytest.raises(NoTime) as refused:
        read_moment(text, NOW)

    assert str(refused.value).endswith(f"did you mean {nearest}?")
    read_moment(nearest, NOW)


@pytest.mark.parametrize("text", ["", "soon", "5/4/2026", "99.99.2026", "2026-05-04\0", "h" * 99])
def test_what_means_nothing_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(NoTime) as refused:
        read_moment(text, NOW)

    assert "such as 30m, 2h or 7d" in str(refused.value)
    assert "did you mean" not in str(refused.value)
    assert len(str(refused.value)) < 300
    assert as_sentence(refused.value).endswith(".")


def test_a_time_outside_the_years_is_refused() -> None:
    with pytest.raises(TimeOutOfBounds):
        read_moment("0001-01-01T00:00:00+23:59", NOW)


def test_a_duration_that_is_none_is_refused_with_the_nearest() -> None:
    with pytest.raises(NoTime, match=r"'5 minutes' is no time: a duration is .* mean 5m\?"):
        read_duration("5 minutes")


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("2024-05-01T12:00:00Z", NOON.replace(microsecond=999_999)),
        ("2024-05-01 12:00:00+00:00", NOON.replace(microsecond=999_999)),
        ("20240501T120000-0000", NOON.replace(microsecond=999_999)),
        ("2024-05-01T12:00Z", NOON.replace(second=59, microsecond=999_999)),
        ("2024-05-01T12:00-02:00", NOON.replace(second=59, microsecond=999_999)),
        ("20240501T1200", NOON.replace(second=59, microsecond=999_999)),
        ("2024-05-01", NOON + timedelta(days=1, microseconds=-1)),
        ("2024-W18-3", NOON + timedelta(days=1, microseconds=-1)),
        ("2h", NOON),
        ("2024-05-01T12:00:00.0Z", NOON),
        ("2024-05-01T12:00:00.000000+00:00", NOON),
    ],
)
def test_the_end_of_a_range_includes_what_is_not_written(text: str, last: datetime) -> None:
    assert last_moment_of(NOON, text) == last


def test_the_last_second_of_all_stays_as_it_is() -> None:
    last = datetime.max.replace(tzinfo=UTC)

    assert last_moment_of(last, "9999-12-31T23:59:59Z") == last
