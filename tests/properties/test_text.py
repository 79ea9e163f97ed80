"""Cleaned text and headers for people, whatever came over the wire."""

import json

from hypothesis import given
from hypothesis import strategies as st

from retrier.domain.classifiers import first_frame
from retrier.domain.text import clean, jsonable
from retrier.domain.times import parse_iso_time, parse_wire_time

anything = st.text(st.characters(exclude_categories=[]))
limits = st.integers(min_value=0, max_value=40)


@given(anything, limits)
def test_cleaning_twice_is_cleaning_once(text, limit):
    once = clean(text, limit)

    assert clean(once, limit) == once


@given(anything, limits)
def test_clean_text_fits_and_can_be_stored(text, limit):
    assert len(clean(text, limit).encode("utf-8")) <= limit
    assert "\0" not in clean(text, limit)


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_text_that_fits_is_kept_to_the_letter(text):
    assert clean(text, 4 * len(text)) == text


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | anything
    | st.binary()
    | st.datetimes()
    | st.decimals()
)
nested = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(anything, inner), max_leaves=10
)


@given(st.dictionaries(anything, nested))
def test_headers_for_people_survive_json(headers):
    shown = jsonable(headers)

    assert json.loads(json.dumps(shown, allow_nan=False)) == shown


@given(st.dictionaries(anything, nested))
def test_headers_for_people_are_the_same_when_shown_again(headers):
    shown = jsonable(headers)

    assert jsonable(shown) == shown


@given(anything, anything)
def test_any_text_may_be_called_a_stack_trace(stack_trace, message):
    frame = first_frame(stack_trace, message)

    assert frame is None or "\n" not in frame


@given(anything)
def test_what_is_read_as_a_time_carries_its_offset(text):
    for time in (parse_iso_time(text), parse_wire_time(text)):
        assert time is None or time.utcoffset() is not None
