"""The position in a stream that a sender states: what is one, and that its text sorts as it does."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrier.domain.streams import NO_POSITION, read_position, show_position

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
LARGEST = 10**20 - 1


def position(value: object) -> str:
    found = read_position(value)
    assert found is not None
    return found


class TestAPosition:
    @pytest.mark.parametrize(
        ("value", "shown"),
        [
            (0, "0"),
            (7, "7"),
            (-7, "-7"),
            ("7", "7"),
            (" +7 ", "7"),
            ("007", "7"),
            ("-0", "0"),
            ("7.50", "7.5"),
            (7.5, "7.5"),
            (1e19, "10000000000000000000"),
            (Decimal("7.25"), "7.25"),
            ("-0.000000001", "-0.000000001"),
            (LARGEST, str(LARGEST)),
            (-LARGEST, str(-LARGEST)),
            (f"{LARGEST}.123456789", f"{LARGEST}.123456789"),
            (NOON, "1777896000"),
            (NOON.replace(tzinfo=None), "1777896000"),
            ("2026-05-04T12:00:00Z", "1777896000"),
            ("2026-05-04T14:00:00.000001+02:00", "1777896000.000001"),
            ("2026-05-04 12:00:00:000001 Z", "1777896000.000001"),
        ],
        ids=repr,
    )
    def test_is_a_number_or_a_time(self, value: object, shown: str) -> None:
        assert show_position(position(value)) == shown

    @pytest.mark.parametrize(
        "value",
        [
            None,
            True,
            "",
            " ",
            "seven",
            "7a",
            "1,5",
            "0x7",
            "1e3",
            "nan",
            "inf",
            float("nan"),
            float("-inf"),
            Decimal("NaN"),
            Decimal("Infinity"),
            Decimal("1e999999"),
            LARGEST + 1,
            -LARGEST - 1,
            10**4000,
            "9" * 21,
            "9" * 5000,
            "\u0667",
            "12:00",
            "2026-05-04",
            "2026-05-04T12:00:00",
            "0001-01-01T00:00:00Z",
            [7],
            {"position": 7},
            b"7",
        ],
        ids=lambda value: f"{value!r:.20} of {len(repr(value))}",
    )
    def test_is_nothing_else(self, value: object) -> None:
        assert read_position(value) is None

    def test_is_the_same_moment_in_every_zone(self) -> None:
        there = NOON.astimezone(timezone(timedelta(hours=-11)))

        assert read_position(there) == read_position(NOON)

    @given(st.lists(st.integers(-LARGEST, LARGEST), min_size=2, max_size=2))
    def test_sorts_as_its_number(self, pair: list[int]) -> None:
        assert sorted(pair) == sorted(pair, key=position)

    @given(st.decimals(-LARGEST, LARGEST, places=9), st.decimals(-LARGEST, LARGEST, places=9))
    def test_sorts_as_its_number_with_decimals(self, one: Decimal, other: Decimal) -> None:
        assert (one < other) == (position(one) < position(other))

    @given(st.integers(-LARGEST, LARGEST))
    def test_comes_before_those_that_have_none(self, number: int) -> None:
        assert position(number) < NO_POSITION

    def test_that_is_missing_is_shown_as_none(self) -> None:
        assert show_position(NO_POSITION) is None
