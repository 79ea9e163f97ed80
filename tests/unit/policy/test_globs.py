"""Globs, and which of them cover others."""

import pytest

from retrier.policy.patterns import covers, matches, plain


@pytest.mark.parametrize(
    ("glob", "text"),
    [
        ("orders", "orders"),
        ("*", ""),
        ("*", "orders\nand more"),
        ("pay*", "payments"),
        ("*.dead", "orders.dead"),
        ("a*b*c", "a--b--b--c"),
        ("a*b?c*d", "a-b-c-bxc-d"),
        ("o?ders", "orders"),
        ("a.b", "a.b"),
        ("[ab]", "[ab]"),
        ("a**b", "ab"),
    ],
)
def test_a_glob_matches(glob: str, text: str) -> None:
    assert matches((glob,), text)


@pytest.mark.parametrize(
    ("glob", "text"),
    [
        ("orders", "Orders"),
        ("orders", "orders2"),
        ("pay*", "prepay"),
        ("o?ders", "oders"),
        ("a.b", "axb"),
        ("[ab]", "a"),
        ("a*b", "aXbY"),
        ("ab*ba", "aba"),
        ("*", None),
    ],
)
def test_a_glob_does_not_match(glob: str, text: str | None) -> None:
    assert not matches((glob,), text)


def test_one_of_several_is_enough() -> None:
    assert matches(("a", "b*"), "bc")


def test_one_of_several_must_match_the_whole_text() -> None:
    assert not matches(("a", "b", "cd"), "abcd")


@pytest.mark.parametrize("text", ["", "a"])
def test_no_globs_match_nothing(text: str) -> None:
    assert not matches((), text)


def test_a_glob_without_letters_matches_the_empty_text_beside_others() -> None:
    assert matches(("a", ""), "")


def test_a_hostile_text_takes_no_time() -> None:
    assert not matches(("*a" * 20 + "b",), "a" * 1024)


@pytest.mark.parametrize(
    ("globs", "others"),
    [(("*",), ("a*", "b")), (("pay*",), ("payments", "pay*out")), (("a", "b"), ("b",))],
)
def test_globs_cover_others(globs: tuple[str, ...], others: tuple[str, ...]) -> None:
    assert covers(globs, others)


@pytest.mark.parametrize(
    ("globs", "others"), [(("pay*",), ("*",)), (("a?c",), ("a*c",)), (("a",), ("a", "b"))]
)
def test_globs_do_not_cover_what_matches_more(
    globs: tuple[str, ...], others: tuple[str, ...]
) -> None:
    assert not covers(globs, others)


def test_plain_are_those_that_are_one_word() -> None:
    assert plain(["a", "b*", "c?"]) == ["a"]
