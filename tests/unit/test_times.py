"""Times as messages carry them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from retrier.domain.times import (
    from_epoch,
    in_utc,
    not_ahead_of,
    parse_iso_time,
    parse_wire_time,
)

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2024-05-01 12:00:00:000000 Z", NOON),
        ("2024-05-01 12:00:00:123456 Z", NOON.replace(microsecond=123456)),
        (" 2024-05-01 12:00:00:000000 Z ", NOON),
        ("2024-05-01T12:00:00Z", None),
        ("2024-13-01 12:00:00:000000 Z", None),
        ("2024-05-01 12:00:00:123 Z", None),
        ("0001-01-01 00:00:00:000000 Z", None),
        ("", None),
        (None, None),
    ],
)
def test_nservicebus_writes_microseconds_after_a_colon(text, time):
    assert parse_wire_time(text) == time


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2024-05-01T12:00:00Z", NOON),
        ("2024-05-01T12:00:00+00:00", NOON),
        ("2024-05-01T14:00:00+02:00", NOON),
        ("2024-05-01 12:00:00Z", NOON),
        ("2024-05-01T12:00:00.1234567Z", NOON.replace(microsecond=123456)),
        ("yesterday", None),
        ("1714564800", None),
        ("", None),
        (None, None),
    ],
)
def test_iso_times_are_read_into_utc(text, time):
    assert parse_iso_time(text) == time


def test_a_time_without_an_offset_is_no_moment():
    assert parse_iso_time("2024-05-01T12:00:00") is None


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00"])
def test_a_clock_that_was_never_set_gives_no_time(text):
    assert parse_iso_time(text) is None


def test_a_moment_keeps_its_place_in_time_in_utc():
    assert in_utc(datetime(2024, 5, 1, 14, tzinfo=timezone(timedelta(hours=2)))) == NOON


@pytest.mark.parametrize(
    ("number", "time"),
    [
        pytest.param(1714564800, NOON, id="seconds"),
        pytest.param(1714564800123, NOON.replace(microsecond=123000), id="milliseconds"),
        pytest.param(0, None, id="never set"),
        pytest.param(-1, None, id="negative"),
        pytest.param(2**63, None, id="out of range"),
        pytest.param("1714564800", None, id="text"),
        pytest.param(None, None, id="absent"),
    ],
)
def test_epoch_times_are_seconds_or_milliseconds(number, time):
    assert from_epoch(number) == time


@pytest.mark.parametrize(
    ("time", "kept"),
    [
        (NOON, NOON),
        (NOON + timedelta(minutes=5), NOON + timedelta(minutes=5)),
        (NOON + timedelta(days=2), None),
        (None, None),
    ],
)
def test_a_time_far_ahead_of_now_is_dropped(time, kept):
    assert not_ahead_of(NOON, time, timedelta(days=1)) == kept
