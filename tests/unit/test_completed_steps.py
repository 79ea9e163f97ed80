"""Completed steps are united over all attempts: flags by *or*, names in their order."""

import pytest

from retrier.domain.streams import (
    LOOKED_AT,
    MOST_BYTES,
    find_said,
    read_said,
    unite,
)


@pytest.mark.parametrize(
    ("attempts", "united"),
    [
        ([], None),
        ([None, None], None),
        (["", " "], None),
        (["1"], "1"),
        (["1", "2"], "3"),
        (["1", "2", "32769"], "3"),
        (["32768"], "0"),
        (["4", None, "1"], "5"),
        ([" 1 ", "2"], "3"),
        (["9223372036854775807", "1"], str(2**63 - 1 - 32768)),
    ],
)
def test_flags_are_joined_by_or_without_the_one_for_failed(attempts, united):
    assert unite(attempts) == united


@pytest.mark.parametrize(
    ("attempts", "united"),
    [
        (["reserve"], "reserve"),
        (["reserve,pay", "pay,send"], "reserve,pay,send"),
        (["reserve, pay ,,"], "reserve,pay"),
        (['["reserve"]'], '["reserve"]'),
        (["send", "reserve"], "send,reserve"),
    ],
)
def test_names_are_united_in_the_order_in_which_they_came(attempts, united):
    assert unite(attempts) == united


@pytest.mark.parametrize(
    ("attempts", "united"),
    [
        (["1", "reserve"], "1,reserve"),
        (["reserve", "3", "3"], "reserve,3"),
        (["1,2", "4"], "1,2,4"),
        (["9223372036854775808", "1"], "9223372036854775808,1"),
        (["-1", "1"], "-1,1"),
        (["٣", "1"], "٣,1"),
    ],
    ids=["flags first", "names first", "a list", "64 bits", "a negative number", "other digits"],
)
def test_anything_but_flags_makes_all_of_them_names(attempts, united):
    assert unite(attempts) == united


def test_a_step_is_never_taken_away():
    assert unite(["7", "0"]) == "7"


def test_names_that_do_not_fit_are_left_out_whole():
    names = [f"step-{each:04}" for each in range(200)]

    united = unite([",".join(names)])

    assert united is not None
    assert len(united.encode()) <= MOST_BYTES
    assert united.split(",") == names[: len(united.split(","))]
    assert len(united.split(",")) == (MOST_BYTES + 1) // 10


def test_names_that_fill_the_room_are_all_kept():
    names = ["x" * 511, "y" * 512]

    assert unite(names) == ",".join(names)


def test_the_last_name_of_a_text_that_was_cut_is_not_taken_for_a_name():
    cut = ("a," + "b" * LOOKED_AT)[:LOOKED_AT]

    assert unite([cut]) == "a"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("reserve", ("reserve",)),
        (3, ("3",)),
        (["reserve", 3], ("reserve", "3")),
        (("a", {"b"}), ("a", "b")),
        (True, ()),
        (None, ()),
        (1.5, ()),
    ],
    ids=repr,
)
def test_a_program_says_names_flags_or_several(value: object, said: tuple[str, ...]) -> None:
    assert read_said(value) == said


def test_an_exception_is_asked_with_its_causes_oldest_first() -> None:
    cause = ValueError()
    cause.completed_steps = "reserve"  # type: ignore[attr-defined]
    error = RuntimeError()
    error.__cause__ = cause
    error.completed_steps = ["pay"]  # type: ignore[attr-defined]
    cause.__cause__ = error

    assert find_said(error)[-2:] == ("reserve", "pay")
