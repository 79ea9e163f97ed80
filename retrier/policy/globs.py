"""Globs: `*` is any text, `?` is one character, upper and lower case differ."""

import re
from collections.abc import Iterable
from functools import cache

_ANY_CHARACTER = "[^\0]"
"""Without NUL, which stands for the `*` of another glob when `covers` compares two."""

Globs = tuple[str, ...]

ANYTHING: Globs = ("*",)


def matches(globs: Globs, text: str | None) -> bool:
    """Say whether one of them matches all of the text; no glob matches what is not there."""
    return text is not None and any(_compiled(glob).fullmatch(text) for glob in globs)


def covers(globs: Globs, others: Globs) -> bool:
    """Say whether what matches the others matches these as well, as far as can be told simply."""
    return all(matches(globs, other.replace("*", "\0")) for other in others)


def plain(globs: Iterable[str]) -> list[str]:
    """Return those that are one word, without `*` and `?`."""
    return [glob for glob in globs if "*" not in glob and "?" not in glob]


@cache
def _compiled(glob: str) -> re.Pattern[str]:
    first, *rest = (_literal(part) for part in re.split(r"\*+", glob))
    if not rest:
        return re.compile(first, re.DOTALL)
    *middle, last = rest
    # Each part at its first place, for good: without backtracking no text takes long.
    found = "".join(f"(?>.*?{part})" for part in middle)
    return re.compile(f"{first}{found}.*{last}", re.DOTALL)


def _literal(part: str) -> str:
    return "".join(_ANY_CHARACTER if each == "?" else re.escape(each) for each in part)
