"""Text for columns, and headers for people."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from retrier.domain.text import (
    COLUMN_BYTES,
    DEEPEST,
    TOO_DEEP,
    clean,
    count_messages,
    count_of,
    jsonable,
)


def test_plain_text_stays_as_it_is():
    assert clean("System.TimeoutException") == "System.TimeoutException"


@pytest.mark.parametrize(
    ("hostile", "stored"),
    [
        pytest.param("a\0b", "ab", id="NUL"),
        pytest.param("a\ud800b", "ab", id="lone high surrogate"),
        pytest.param("a\udfffb", "ab", id="lone low surrogate"),
        pytest.param("\0", "", id="nothing but NUL"),
        pytest.param("é", "é", id="text that is not ASCII"),
        pytest.param("💥", "💥", id="outside the basic plane"),
    ],
)
def test_what_a_database_refuses_is_taken_out(hostile, stored):
    assert clean(hostile) == stored


def test_text_is_cut_to_what_an_index_holds():
    assert clean("x" * 9000) == "x" * COLUMN_BYTES


def test_text_is_cut_by_bytes_and_never_inside_a_character():
    assert clean("éé", 3) == "é"


def test_a_column_that_is_only_shown_may_hold_more():
    assert clean("x" * 9000, 10_000) == "x" * 9000


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("text", "text"),
        (7, 7),
        (True, True),
        (None, None),
        (1.5, 1.5),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (Decimal("12.30"), "12.30"),
        (datetime(2024, 5, 1, 12, tzinfo=UTC), "2024-05-01T12:00:00+00:00"),
        (b"bytes", "bytes"),
        (b"\xff\xfe", "//4="),
        (b"a\0b", "YQBi"),
        ("a\0b\ud800", "ab"),
        (["a", ["b"]], ["a", ["b"]]),
        (("a", 1), ["a", 1]),
        ({"k\0": {"n": b"v"}}, {"k": {"n": "v"}}),
        ({3: 4}, {"3": 4}),
    ],
)
def test_a_header_value_is_shown_as_json(value, shown):
    assert jsonable({"header": value}) == {"header": shown}


def test_headers_nested_without_end_are_cut():
    bottomless: list[object] = ["bottom"]
    for _ in range(DEEPEST + 1):
        bottomless = [bottomless]

    assert TOO_DEEP in json.dumps(jsonable({"header": bottomless}))


def test_headers_nested_within_reason_are_kept():
    nested: object = "bottom"
    for _ in range(DEEPEST):
        nested = [nested]

    assert "bottom" in json.dumps(jsonable({"header": nested}))


def test_the_headers_given_are_left_alone():
    headers = {"list": ["a\0"]}

    jsonable(headers)

    assert headers == {"list": ["a\0"]}


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 messages"), (1, "1 message"), (2, "2 messages")]
)
def test_one_is_told_as_one(number, words):
    assert count_messages(number) == words


def test_what_has_a_plural_of_its_own_is_told_with_it():
    assert (count_of(1, "copy", "copies"), count_of(3, "copy", "copies")) == ("1 copy", "3 copies")
