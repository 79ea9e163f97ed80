"""How long a message waits whose handler took too long, and what is read from it."""

from datetime import UTC, datetime, timedelta

import pytest

from retrier.worker.starts import Late, find_pause, read_late, stamp

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def test_each_pause_is_twice_as_long_as_the_one_before() -> None:
    assert [find_pause(times, 60) for times in (1, 2, 3, 4)] == [60, 120, 240, 480]


@pytest.mark.parametrize("times", [5, 1_000_000])
def test_no_pause_is_longer_than_ten_minutes(times: int) -> None:
    assert find_pause(times, 60) == 600


def test_who_may_take_longer_than_that_waits_as_long_as_it_may_take() -> None:
    assert find_pause(3, 3600) == 3600


def test_what_is_stamped_is_read() -> None:
    headers = stamp(2, 60, NOW)

    assert read_late(headers, 60, NOW + timedelta(seconds=20)) == Late(2, 100)
    assert read_late(headers, 60, NOW + timedelta(seconds=120)) == Late(2, 0)


def test_a_wait_that_is_longer_than_it_was_meant_to_be_is_over() -> None:
    headers = stamp(2, 60, NOW)

    assert read_late(headers, 60, NOW - timedelta(hours=1)) == Late(2, 0)


def test_who_has_no_timeout_starts_it_at_once() -> None:
    assert read_late(stamp(2, 60, NOW), None, NOW) == Late(0, 0)


@pytest.mark.parametrize("nonsense", ["soon", "", "-1", "9" * 400, "\u0663", 7, None, {}])
def test_a_time_that_is_none_is_over(nonsense: object) -> None:
    headers = {"x-caf-worker-timeouts": "1", "x-caf-worker-not-before": nonsense}

    assert read_late(headers, 60, NOW) == Late(1, 0)


@pytest.mark.parametrize("nonsense", ["often", "-1", "9" * 400, None, {}])
def test_a_count_that_is_none_is_zero(nonsense: object) -> None:
    assert read_late({"x-caf-worker-timeouts": nonsense}, 60, NOW) == Late(0, 0)
