"""JSON that is read and written again: what nobody changed says what it said."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrier.domain.json_texts import (
    NamedTwice,
    NotJson,
    Number,
    TooDeep,
    depth_of,
    read_json,
    why_no_json,
    write_json,
)


@pytest.mark.parametrize(
    "text",
    [
        "1.10",
        "1e400",
        "-0",
        "1E5",
        "0.1",
        "12345678901234567890123",
        "9" * 5000,
        '{"b":1.50,"a":[2,"x",null,true]}',
    ],
)
def test_a_text_without_spaces_is_written_as_it_was(text: str) -> None:
    assert write_json(read_json(text), ascii_only=True) == text


def test_other_letters_are_written_as_they_are_where_they_may_be() -> None:
    assert write_json({"a": "é", "b": Number("1.0")}, ascii_only=False) == '{"a":"é","b":1.0}'


def test_other_letters_are_escaped_where_they_must_be() -> None:
    assert write_json({"a": "é", "b": Number("1.0")}, ascii_only=True) == '{"a":"\\u00e9","b":1.0}'


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside),
        max_leaves=20,
    )
)
def test_any_value_is_written_with_what_it_says(value: object) -> None:
    text = json.dumps(value, separators=(",", ":"), allow_nan=True)
    if "Infinity" not in text:
        assert write_json(read_json(text), ascii_only=True) == text


class TestANumber:
    @pytest.mark.parametrize("other", [Number("1.1"), Number("11e-1"), 1.1])
    def test_is_equal_to_one_of_the_same_value(self, other: object) -> None:
        assert Number("1.10") == other

    @pytest.mark.parametrize("other", [Number("1.2"), 1, "1.10", None])
    def test_is_not_equal_to_anything_else(self, other: object) -> None:
        assert Number("1.10") != other

    def test_is_no_truth(self) -> None:
        assert Number("1") != True  # noqa: E712 - the value itself

    def test_of_any_exponent_is_compared(self) -> None:
        assert Number("1e99999999999999999999999") != Number("1e1")


@pytest.mark.parametrize("text", ["", "{", "NaN", "[Infinity]", "1 2", "{'a': 1}"])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(NotJson):
        read_json(text)


def test_an_object_with_two_members_of_one_name_is_refused() -> None:
    with pytest.raises(NamedTwice):
        read_json('{"a": 1, "a": 2}')


def test_what_nests_without_end_is_refused() -> None:
    with pytest.raises(TooDeep):
        read_json("[" * 100_000)


@pytest.mark.parametrize(("value", "depth"), [("a", 1), ([], 2), ({"a": [1, [2]]}, 4)])
def test_the_depth_of_a_value_is_known(value: object, depth: int) -> None:
    assert depth_of(value) == depth


def nested(inside: str, levels: int = 60_000) -> str:
    return '[{"a":' * levels + inside + "}]" * levels


class TestWhatIsJson:
    @pytest.mark.parametrize(
        "text",
        [
            "9" * 5000,
            f"[{'9' * 5000}]",
            nested("1"),
            nested('"\\u00e9 \\\\", "b" : [ ]') + " \n",
            nested('{}, "b": [1, -2.5e+7, {"c": null}]'),
        ],
    )
    def test_may_be_as_long_or_as_deep_as_it_likes(self, text: str) -> None:
        assert why_no_json(text) is None

    @pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a":-Infinity}'])
    def test_has_no_numbers_that_are_none(self, text: str) -> None:
        assert "is no JSON" in str(why_no_json(text))

    @pytest.mark.parametrize(
        "inside", ["", "NaN", "01", "1,", '1,"b"', "'x'", "[1 2]", "[1,]", "{1:2}", '"\n"', "]"]
    )
    def test_is_found_broken_however_deep(self, inside: str) -> None:
        assert why_no_json(nested(inside)) is not None

    @pytest.mark.parametrize("end", ["]", ",1", "x", "{"])
    def test_has_nothing_behind_it(self, end: str) -> None:
        assert why_no_json(nested("1") + end) is not None
