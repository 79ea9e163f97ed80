"""What a pattern with one group finds in a text."""

import pytest

from retrier.policy.patterns import LOOKED_AT, Extract


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("^([a-z]+):", "boom: no stock", "boom"),
        ("(b+)", "abb\ud800", "bb"),
        ("x(y?)", "x", None),
        ("x(y)", "a", None),
        ("(b)$", "a" * LOOKED_AT + "b", None),
        ("(?:a|b)(c)", "bc", "c"),
        ("(é+)", "née", "é"),
    ],
)
def test_it_finds_what_its_group_finds_in_the_beginning(pattern, text, found):
    assert Extract(pattern).find(text) == found


@pytest.mark.parametrize("pattern", ["x", "(a)(b)", "(?=a)(b)", "("])
def test_a_pattern_with_another_number_of_groups_is_refused(pattern):
    with pytest.raises(ValueError, match=r"must have one group|is no regular expression"):
        Extract(pattern)
