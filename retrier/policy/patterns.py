"""Patterns of policies: globs for names, and regular expressions by RE2 for texts.

RE2 never tries a text twice, so no text holds a search up. It does not know all that Python's `re`
does: what it refuses is said with what to write instead (decision 0085).
"""

import re
from collections.abc import Iterable
from functools import cache

import re2

_ANY_CHARACTER = "[^\0]"
"""Without NUL, which stands for the `*` of another glob when `covers` compares two."""

Globs = tuple[str, ...]

ANYTHING: Globs = ("*",)


def matches(globs: Globs, text: str | None) -> bool:
    """Say whether one of them matches all of the text; no glob matches what is not there."""
    return text is not None and _compiled(globs).fullmatch(text) is not None


def covers(globs: Globs, others: Globs) -> bool:
    """Say whether what matches the others matches these as well, as far as can be told simply."""
    return all(matches(globs, other.replace("*", "\0")) for other in others)


def plain(globs: Iterable[str]) -> list[str]:
    """Return those that are one word, without `*` and `?`."""
    return [glob for glob in globs if "*" not in glob and "?" not in glob]


@cache
def _compiled(globs: Globs) -> re.Pattern[str]:
    # As one expression: a call for each glob is most of what a table of a hundred of them takes.
    return re.compile("|".join(map(_expression, globs)) if globs else _NOTHING, re.DOTALL)


_NOTHING = "(?!)"


def _expression(glob: str) -> str:
    first, *rest = (_literal(part) for part in re.split(r"\*+", glob))
    if not rest:
        return first
    *middle, last = rest
    # Each part at its first place, for good: without backtracking no text takes long.
    found = "".join(f"(?>.*?{part})" for part in middle)
    return f"{first}{found}.*{last}"


def _literal(part: str) -> str:
    return "".join(_ANY_CHARACTER if each == "?" else re.escape(each) for each in part)


LOOKED_AT = 4096
"""Characters of a message that are looked at: its first ones."""

MOST_STEPS = 10_000
"""Steps that all patterns of a set may take together for one byte of a text.

Where nothing can be remembered from one byte to the next, this is a search of a second or two.
"""

_MOST_CHARACTERS = 10_000
_SHOWN = 40
"""Characters of a pattern that are shown with RE2's words about it."""
_MEMORY = 16 * 1024 * 1024
"""Bytes that a set of patterns takes at most: it remembers there what it has met in texts."""
_TOO_LARGE = (
    f"takes more than {MOST_STEPS} steps for each character of a text: repeat less often, write .* "
    r"in place of .{0,200}, and name letters in place of \pL"
)

_LEAST_LEFT_OUT = re.compile(r"(?<!\\)(?:\\\\)*\{,\d*\}")
_REPEATED_FOR_EVER = re.compile(r"(?<!\\)(?:\\\\)*\{(?:\d{10,}(?:,\d*)?|\d+,\d{10,})\}")
"""What RE2 takes for plain text, though Python takes it for a repetition."""

_NO_TEXT_AROUND = "look-around is not known: write that text as a part of the expression"
_NO_TEXT_MISSING = (
    "look-around is not known: give what must not be there a reason by an entry before this one"
)
_NO_TEXT_AGAIN = "back-references are not known: write out the texts that may come again"
_BY_NUMBER = r"write the character itself, or its number as in \x{20AC}"
_MOST_REPEATED = (
    "a part is repeated 1000 times at most, with all that repeats it again, and {n,m} has the "
    "smaller number first"
)
_INSTEAD = {
    "invalid perl operator: (?=": _NO_TEXT_AROUND,
    "invalid perl operator: (?<=": _NO_TEXT_AROUND,
    "invalid perl operator: (?!": _NO_TEXT_MISSING,
    "invalid perl operator: (?<!": _NO_TEXT_MISSING,
    "invalid perl operator: (?P": _NO_TEXT_AGAIN,
    "invalid perl operator: (?>": "write (?:...), for nothing is tried twice",
    "invalid perl operator: (?(": "conditions are not known: write both cases, as in (?:one|other)",
    "invalid perl operator: (?#": "leave the comment out",
    "invalid perl operator: (?": "the flags that are known are i, m, s and U",
    r"invalid escape sequence: \Z": r"write \z",
    r"invalid escape sequence: \u": _BY_NUMBER,
    r"invalid escape sequence: \U": _BY_NUMBER,
    r"invalid escape sequence: \N": _BY_NUMBER,
    "invalid repetition size": _MOST_REPEATED,
    "bad repetition operator": (
        "leave out the second one, for nothing is tried twice, or put (?:...) around what it repeats"
    ),
}
"""What to write in place of what RE2 does not know, by the beginning of its words."""


def count_steps(pattern: str) -> int:
    """Return how many steps it takes at most for one byte of a text.

    Raises:
        ValueError: it is no pattern, or too large; with what to write instead.
    """
    if len(pattern) > _MOST_CHARACTERS:
        raise ValueError(f"is longer than {_MOST_CHARACTERS} characters")
    if _LEAST_LEFT_OUT.search(pattern):
        raise ValueError(r"has {,n}, which is plain text here: write {0,n}, or \{,n} for that text")
    if _REPEATED_FOR_EVER.search(pattern):
        raise ValueError(f"is no regular expression: {_MOST_REPEATED}")
    try:
        steps: int = re2.compile(pattern.encode(), _options()).programsize
    except UnicodeEncodeError:
        raise ValueError("has half of a character, which no text has") from None
    except re2.error as error:
        words: str = error.args[0].decode(errors="replace")
        raise ValueError(_say_why(words)) from None
    if steps > MOST_STEPS:
        raise ValueError(_TOO_LARGE)
    return steps


def _say_why(words: str) -> str:
    if words.startswith("pattern too large"):
        return _TOO_LARGE
    said, _, part = words.partition(": ")
    shown = f"{said}: {part}" if len(part) <= _SHOWN else said
    backwards = re.match(r"invalid escape sequence: \\[1-9]", words) is not None
    known = (instead for begins, instead in _INSTEAD.items() if words.startswith(begins))
    instead = _NO_TEXT_AGAIN if backwards else next(known, None)
    return f'is no regular expression of RE2 ("{shown}"){f": {instead}" if instead else ""}'


class Patterns:
    """Patterns that are searched in a text together, in one pass over it.

    They must be such as `count_steps` takes. Threads may share it.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        """Compile them. Raises re2.error if one of them is wrong, or they are too large."""
        self._patterns = tuple(patterns)
        self._set = re2.Set.SearchSet(_options())
        for each in self._patterns:
            self._set.Add(each.encode())
        if self._patterns:
            self._set.Compile()

    def find_in(self, text: str) -> frozenset[str]:
        """Return those that are found in a text."""
        if not self._patterns:
            return frozenset()
        # Half of a character is left out, as it is from what the database holds.
        found = self._set.Match(text.encode("utf-8", "ignore")) or ()
        return frozenset(self._patterns[at] for at in found)


class Extract:
    """A pattern with one group: what it finds there in a text. Threads may share it."""

    def __init__(self, pattern: str) -> None:
        """Compile it. Raises ValueError for what is no pattern, or has not one group."""
        count_steps(pattern)
        options = _options()
        options.never_capture = False
        self._pattern = re2.compile(pattern.encode(), options)
        if self._pattern.groups != 1:
            raise ValueError("must have one group, as in ^orders/(.*)$")

    def find(self, text: str) -> str | None:
        """Return what the group finds in the beginning of a text; None if that is nothing."""
        found = self._pattern.search(text[:LOOKED_AT].encode("utf-8", "ignore"))
        part: bytes | None = found[1] if found else None
        return part.decode(errors="replace") if part else None


GENERATED = "*"
"""What stands in a name in place of what was generated."""


class Generated:
    """Patterns of what is generated in names: of types, and of frames. Threads may share it."""

    def __init__(self, patterns: Iterable[str]) -> None:
        """Compile them, to be used one after the other. Raises ValueError for what is no pattern."""
        self._patterns = []
        for each in patterns:
            count_steps(each)
            found = re2.compile(each.encode(), _options())
            if found.search(b""):
                raise ValueError("finds something where there is no text: write + in place of *")
            self._patterns.append(found)

    def fold(self, name: str) -> str:
        """Return a name with `*` in place of whatever one of them finds."""
        folded = name.encode("utf-8", "ignore")
        for each in self._patterns:
            folded = each.sub(GENERATED.encode(), folded)
        return folded.decode(errors="replace")


def _options() -> re2.Options:
    options = re2.Options()
    options.max_mem = _MEMORY
    options.never_capture = True
    options.log_errors = False
    return options
