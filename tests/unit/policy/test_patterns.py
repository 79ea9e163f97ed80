"""An operator's regular expressions: which are refused, what they find, and how long that takes."""

import re

import pytest

from retrier.policy.patterns import LOOKED_AT, MOST_STEPS, Generated, Patterns, count_steps
from tests.support.processor_time import can_take


def is_found(pattern: str, text: str) -> bool:
    count_steps(pattern)
    return Patterns([pattern]).find_in(text) == {pattern}


AROUND = "look-around is not known: write that text as a part of the expression"
MISSING = (
    "look-around is not known: give what must not be there a reason by an entry before this one"
)
AGAIN = "back-references are not known: write out the texts that may come again"
ONCE = "leave out the second one, for nothing is tried twice, or put (?:...) around what it repeats"
FLAGS = "the flags that are known are i, m, s and U"
NUMBER = r"write the character itself, or its number as in \x{20AC}"
REPEATED = "a part is repeated 1000 times at most, with all that repeats it again"
REFUSED = {
    "a(?=b)": AROUND,
    "(?<=a)b": AROUND,
    "a(?!b)": MISSING,
    "(?<!a)b": MISSING,
    r"(a)\1": AGAIN,
    "(?P<n>a)(?P=n)": AGAIN,
    "a++": ONCE,
    "a{1,2}+": ONCE,
    "a{2}{3}": ONCE,
    "(?>a)": "write (?:...), for nothing is tried twice",
    "(?(1)a|b)": "conditions are not known: write both cases, as in (?:one|other)",
    "a(?#text)": "leave the comment out",
    "(?x)a": FLAGS,
    "(?a)a": FLAGS,
    r"end\Z": r"write \z",
    r"\u20ac": NUMBER,
    r"\U000020ac": NUMBER,
    r"\N{EURO SIGN}": NUMBER,
    "a{1001}": REPEATED,
    "(?:a{100}){100}": REPEATED,
    "a{5,2}": "{n,m} has the smaller number first",
    "a{9999999999}": REPEATED,
    "a{9999999999,}": REPEATED,
    "a{1,9999999999}": REPEATED,
    "a{,5}": r"write {0,n}, or \{,n} for that text",
    "a{,}": r"write {0,n}, or \{,n} for that text",
    "(": "missing )",
    "[z-a]": "invalid character class range: z-a",
    "\ud800": "has half of a character, which no text has",
    ".{1000}.{1000}": "takes more than 10000 steps for each character of a text",
    r"(?:\pL|\pN){0,300}": "takes more than 10000 steps for each character of a text",
    r"\pL{1000}": "takes more than 10000 steps for each character of a text",
    "(a" * 5000: "no regular expression",
    "a" * 10_001: "is longer than 10000 characters",
}


@pytest.mark.parametrize(("pattern", "instead"), REFUSED.items(), ids=lambda text: text[:20])
def test_what_is_not_known_is_refused_with_what_to_write(pattern: str, instead: str) -> None:
    with pytest.raises(ValueError, match=re.escape(instead)):
        count_steps(pattern)


def test_a_long_pattern_is_not_shown_in_the_words_about_it() -> None:
    with pytest.raises(ValueError, match=r'^is no regular expression of RE2 \("missing \)"\)$'):
        count_steps("(" * 5000 + "a")


def test_nothing_is_written_beside_a_refusal(capfd: pytest.CaptureFixture[str]) -> None:
    for pattern in REFUSED:
        with pytest.raises(ValueError, match=r"."):
            count_steps(pattern)

    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"5\d\d", "status 503", True),
        ("(?i)ÄNDERUNG", "keine Änderung", True),
        ("(?i)straße", "STRASSE", False),
        (r"\d", "\N{ARABIC-INDIC DIGIT THREE}", False),
        (r"\p{Nd}", "\N{ARABIC-INDIC DIGIT THREE}", True),
        (r"^\w+$", "für", False),
        (r"^\pL+$", "für", True),
        (r"a\sb", "a\N{NO-BREAK SPACE}b", False),
        ("a.b", "a\N{PILE OF POO}b", True),
        ("end$", "the end", True),
        ("end$", "the end\n", False),
        (r"end\s*$", "the end\n", True),
        ("(?m)end$", "the end\nof it", True),
        ("^of", "the end\nof it", False),
        ("(?m)^of", "the end\nof it", True),
        ("end.of", "the end\nof it", False),
        ("(?s)end.of", "the end\nof it", True),
        (r"end\z", "the end", True),
        ("(?P<one>a)(?P<other>b)", "ab", True),
        ("", "", True),
        ("^$", "", True),
        (r"a\{,5}", "a{,5}", True),
        (r"\x{20AC}", "5 €", True),
        ("a\0b", "a\0b", True),
    ],
)
def test_a_text_has_what_the_pattern_says(pattern: str, text: str, *, found: bool) -> None:
    assert is_found(pattern, text) is found


def test_a_group_takes_no_steps() -> None:
    assert count_steps("((a)(b))") == count_steps("ab")


def test_half_of_a_character_is_not_seen() -> None:
    assert is_found("^time out$", "time \ud83dout")


def test_each_pattern_that_is_found_is_told_once() -> None:
    patterns = Patterns(["a", "b", "a", "c$", "(?i)B"])

    assert patterns.find_in("cab") == {"a", "b", "(?i)B"}
    assert patterns.find_in("x") == frozenset()


def test_no_pattern_is_found_where_there_is_none() -> None:
    assert Patterns(()).find_in("") == frozenset()


HOSTILE = {
    r"(a+)+b": "a",
    r"(a|a)*b": "a",
    r"(a|ab)(b|bb)*c": "ab",
    r"(\w+\s?)*x": "a",
    r"a.*b.*c": "ab",
    r".*.*x": "a",
    r"(.*)(.*)(.*)x": "a",
    r"(?:a?){30}a{30}": "b",
    r"^(([a-z])+.)+[A-Z]([a-z])+$": "a",
    r"(?i)[a-z ]+[a-z]X": "a ",
    r"\d+(?:ab){2}": "1",
    r"(?:a+a+)+b": "a",
    r"(a{1,900})*b": "a",
    r"(?:[ab]{1,9}){99}c": "ab",
    r"[ab]*a[ab]{999}c": "aab",
}
"""Expressions that a search which tries again takes hours for, each with a text that is hostile."""


@pytest.mark.parametrize(("pattern", "piece"), HOSTILE.items())
def test_no_text_holds_a_search_up(pattern: str, piece: str) -> None:
    text = (piece * LOOKED_AT)[:LOOKED_AT]
    assert count_steps(pattern) <= MOST_STEPS

    assert can_take(0.5, lambda: Patterns([pattern]).find_in(text))


def test_a_very_long_text_is_searched() -> None:
    assert is_found("a.*b", "a" + "日" * 1_000_000 + "b")


def test_generated_parts_of_a_name_are_folded_one_pattern_after_the_other():
    generated = Generated(["`[0-9]+", "Proxy[0-9a-f]+"])

    assert generated.fold("Gen.Proxya9.Call`7") == "Gen.*.Call*"


@pytest.mark.parametrize(
    ("pattern", "why"), [("(", "no regular expression"), ("[0-9]*", "where there is no text")]
)
def test_a_pattern_of_generated_names_that_cannot_be_meant_is_refused(pattern, why):
    with pytest.raises(ValueError, match=why):
        Generated([pattern])
