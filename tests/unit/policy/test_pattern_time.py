"""Which regular expressions are too slow for a hostile text."""

import re
from functools import partial

import pytest

from retrier.policy.pattern_time import LOOKED_AT, longest_search
from tests.support.processor_time import can_take

LIMIT = 0.1
ON_A_SLOW_MACHINE = 0.5
"""Seconds; one way more for each character would take minutes (decision 0044)."""

FAST = {
    r"5\d\d": "5",
    r"\b[45]\d\d\b": "45",
    r"(?i)timed? ?out|deadline": "timed ",
    r"connection (?:refused|reset|closed)": "connection re",
    r"code\s*:\s*\d+ ms": "code :     ",
    r"(?i)\b(?:http|status)\W{0,3}(?:code\W{0,3})?5\d\d\b": "status  code ",
    r"timeout.*gateway": "timeout",
    r"(?i)sql.*deadlock": "sql",
    r"deadlock.*victim.*": "deadlock",
    r"a.{0,50}b.{0,50}c": "ab",
    r"^Lock wait": "Lock wai",
    r"x*": "x",
    r"\d+ ms": "1",
    r"(?:ab)+c": "ab",
    r"(?:a|b)+c": "ab",
    r"(?>a+)b": "a",
    r"a++b": "a",
    r"(?:ab)++c": "ab",
    r"(?:a|ab){1,3}c": "ab",
    r"[^:\s]+: failed": "a",
    r"\w+\W\w+": "a ",
    r"(?<=x)\D\S+\s?": "x1",
    r"(?=a)b|c(?!d)": "ab",
    r"(?:|a)b": "b",
    r"\u65e5+[x-z]": "日",
    r"a+日": "a",
    r"[a日]+z": "a",
    r"(?:a?b)+": "ab",
    r"(\d+)$": "1",
    r"x{0,99}([^x]y)": "x",
    r"a+b(c?)d": "a",
    r"\d+[a-z]": "1",
    r"\w*? ": "b",
}
"""Accepted, each with a text that is hostile when repeated."""

SLOW = [
    r"(a+)+b",
    r"(a|a)*b",
    r"(a|ab)(b|bb)*c",
    r"(\w+\s?)*x",
    r"a.*b.*c",
    r".*.*x",
    r"(.*)(.*)(.*)x",
    r"(?:a?){30}a{30}",
    r"^(([a-z])+.)+[A-Z]([a-z])+$",
    r"(\w)+\1x",
    r"(?i)[a-z ]+[a-z]X",
    r"\d+(?:ab){2}",
    r"(?:(?=a*)a)+b",
    r"(?:a|b+|ab)+c",
    r"(?:a+a+)++b",
    r"(a{1,4000})*b",
    r"(?:[a\u65e5]+)+a",
    r"(?:[ab]{1,9}){999}c",
]


@pytest.mark.parametrize("pattern", FAST)
def test_a_pattern_is_fast(pattern: str) -> None:
    assert longest_search(pattern) <= LIMIT


@pytest.mark.parametrize(("pattern", "hostile"), FAST.items())
def test_a_pattern_that_is_accepted_takes_no_longer(pattern: str, hostile: str) -> None:
    search = partial(re.compile(pattern).search, (hostile * LOOKED_AT)[:LOOKED_AT])

    assert can_take(ON_A_SLOW_MACHINE, search)


@pytest.mark.parametrize("pattern", SLOW)
def test_a_pattern_is_slow(pattern: str) -> None:
    assert longest_search(pattern) > LIMIT


def test_no_pattern_is_none() -> None:
    with pytest.raises(re.error):
        longest_search("(")
