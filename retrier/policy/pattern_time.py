"""How long a regular expression may search in a hostile text: an upper estimate, without a search.

Python's `re` tries one way after the other and cannot be interrupted. The estimate walks the parsed
expression and counts the ways, so the same expression is always accepted or always refused,
however busy the machine is (decision 0044).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import log
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

Item = tuple[Any, Any]
"""What it is, and its argument."""

_ALPHABET = "".join(map(chr, range(256))) + "\N{GREEK CAPITAL LETTER OMEGA}\u0663\u2003\u65e5\u20ac"
"""Characters by which two sets are told apart: Latin ones, and one of each kind beyond."""
_LAST_LATIN = 255


def characters_of(item: Item, *, any_case: bool) -> frozenset[str]:
    """Return those of an alphabet that it takes; none if it names one that is not Latin."""
    source = _source(item)
    if max(map(ord, source)) > _LAST_LATIN:
        return frozenset()
    takes = re.compile(source, re.IGNORECASE if any_case else 0).fullmatch
    return frozenset(filter(takes, _ALPHABET))


def _source(item: Item) -> str:
    kind, what = item
    match kind:
        case op.LITERAL:
            return re.escape(chr(what))
        case op.NOT_LITERAL:
            return f"[^{re.escape(chr(what))}]"
        case op.IN:
            return f"[{''.join(map(_part, what))}]"
        case _:
            return "."


def _part(part: Item) -> str:
    kind, what = part
    match kind:
        case op.NEGATE:
            return "^"
        case op.RANGE:
            return "-".join(re.escape(chr(code)) for code in what)
        case op.CATEGORY:
            return _CATEGORIES[what]
        case _:
            return re.escape(chr(what))


_CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
}


LOOKED_AT = 4096
"""Characters of a text that are looked at: its first ones."""

LONGEST_SEARCH = 0.1
"""Seconds that one expression may search in a hostile text, by the estimate."""

LONGEST_OF_ALL = 0.25
"""Seconds that all expressions of a set may search together in one hostile text, by the estimates.

These were up to four times too low: it is a second at most.
"""

_STEP = 3e-9
"""Seconds to compare one character, measured on a slow machine, and doubled."""
_SCAN = 3.5e-9
"""Seconds to take one character more or less in a repetition of a single one."""
_LAZIER = 2
"""So many times as long takes a repetition that takes as little as it can."""
_ROUND = 14e-9
"""Seconds for one round of any other repetition."""
_SLOWER_IN_ANY_CASE = 2.0
_MOST_WAYS = 1e9
"""More ways than this are counted as this: the time is far too long already."""

_ONE = frozenset({op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN})
_REPEATS = frozenset({op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT})


@dataclass(frozen=True, slots=True)
class _Effort:
    """Seconds to try all ways of an item from one place, and how many ways there are."""

    seconds: float
    ways: float


def longest_search(pattern: str) -> float:
    """Return for how many seconds it may search at most. Raises re.error, RecursionError."""
    parsed = _parser.parse(pattern)
    any_case = bool(parsed.state.flags & re.IGNORECASE) or "(?i" in pattern
    step = _STEP * (_SLOWER_IN_ANY_CASE if any_case else 1.0)
    walk = _Walk(step=step, any_case=any_case, looks_around="(?=" in pattern or "(?!" in pattern)
    # From each place of the text: those at its end have less before them, hence the half.
    return sum(walk.try_all(each, LOOKED_AT / 2).seconds for each in _alternatives(list(parsed)))


def _alternatives(items: list[Item]) -> list[list[Item]]:
    """Return what may be found; of a repetition at its end only what it must have.

    Behind that one nothing can fail, so its other ways are never tried.
    """
    match items:
        case [(op.BRANCH, (_, branches))]:
            return [list(each) for each in branches]
        case [*before, (op.MAX_REPEAT | op.MIN_REPEAT as kind, (fewest, _, body))]:
            return [[*before, (kind, (fewest, fewest, body))]]
        case _:
            return [items]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walk:
    """Walks an expression; `step` is how long the comparison of one character takes.

    `length` is how many characters there are for the part that is walked.
    """

    step: float
    any_case: bool
    looks_around: bool
    length: int = LOOKED_AT

    def try_all(self, items: Sequence[Item], places: float) -> _Effort:
        """Return the effort to try a sequence from so many places that follow each other."""
        seconds, ways, in_a_row = 0.0, places, True
        for item, following in _with_following(items):
            if isinstance(item, str):
                seconds += ways * self.step * _compared(item, in_a_row=in_a_row)
                ways = ways / _period(item) + 1 if in_a_row and ways > 1 else ways
                in_a_row = False
            else:
                effort = self._try_one(item, following)
                seconds += ways * effort.seconds
                in_a_row = effort.ways > 1 and _repeats_one(item)
                ways = min(ways * effort.ways, _MOST_WAYS)
        return _Effort(seconds, ways)

    def _try_one(self, item: Item, following: Item | str | None) -> _Effort:
        match item:
            case (op.SUBPATTERN, (*_, body)):
                return self.try_all(list(body), 1)
            case (op.ATOMIC_GROUP, body) | (op.ASSERT | op.ASSERT_NOT, (_, body)):
                return _Effort(self.try_all(list(body), 1).seconds, 1)
            case (op.BRANCH, (_, branches)):
                return self._try_branches([list(each) for each in branches])
            case (op.MAX_REPEAT | op.MIN_REPEAT | op.POSSESSIVE_REPEAT, _):
                return self._try_repeat(item, following)
            case (kind, _) if kind in _ONE or kind is op.AT:
                return _Effort(self.step, 1)
            case _:
                # A group that is compared with what it found before, for example.
                return _Effort(self.step * LOOKED_AT, 2)

    def _try_branches(self, branches: list[list[Item]]) -> _Effort:
        efforts = [self.try_all(each, 1) for each in branches]
        seconds = sum(each.seconds + self.step for each in efforts)
        firsts = [self._first(each) for each in branches]
        apart = sum(map(len, firsts)) == len(frozenset().union(*firsts)) and all(firsts)
        ways = [each.ways for each in efforts]
        return _Effort(seconds, max(ways) if apart else sum(ways))

    def _try_repeat(self, item: Item, following: Item | str | None) -> _Effort:
        kind, (fewest, most, body) = item
        certain = kind is op.POSSESSIVE_REPEAT
        if _repeats_one(item):
            rounds = min(int(most), self.length)
            apart = self._are_apart(body[0], following)
            ways = 1 if certain or apart else max(1, rounds - fewest + 1)
            each = _SCAN + self.step - _STEP + (_refuse_time(following) if apart else 0)
            return _Effort(rounds * each * (_LAZIER if kind is op.MIN_REPEAT else 1), ways)
        rounds = min(int(most), self.length // max(1, body.getwidth()[0]))
        once = self.try_all(list(body), 1)
        if once.ways > 1:
            tries = _power(once.ways, rounds)
            return _Effort(tries * (once.seconds + _ROUND), 1 if certain else tries)
        seconds = self._try_rounds(list(body), rounds) + once.seconds
        return _Effort(seconds, 1 if certain else max(1, rounds - fewest + 1))

    def _try_rounds(self, body: Sequence[Item], rounds: int) -> float:
        """Return the seconds of many rounds: what one of them takes is gone for the others."""
        share = self.length if self.looks_around else self.length // max(1, rounds)
        short = replace(self, length=share)
        return rounds * (short.try_all(body, 1).seconds + _ROUND)

    def _are_apart(self, one: Item, following: Item | str | None) -> bool:
        """Say whether no character of a repetition can begin what follows it."""
        if following is None:
            return False
        first = self._first(_spelt(following) if isinstance(following, str) else [following])
        own = self._first([one])
        return bool(first and own) and not first & own

    def _first(self, items: Sequence[Item]) -> frozenset[str]:
        """Return with which characters it may begin; empty if that is not simple to tell."""
        match items:
            case [(op.SUBPATTERN, (*_, body)), *_]:
                return self._first(list(body))
            case [(op.MAX_REPEAT | op.MIN_REPEAT | op.POSSESSIVE_REPEAT, (fewest, _, body)), *_]:
                return self._first(list(body)) if fewest else frozenset()
            case [(kind, _) as one, *_] if kind in _ONE:
                return characters_of(one, any_case=self.any_case)
            case _:
                return frozenset()


def _refuse_time(following: Item | str | None) -> float:
    """Return the seconds to find that what follows a repetition does not begin here."""
    if isinstance(following, str):
        return 0  # `re` looks for a letter while it goes back
    return _STEP if following is not None and following[0] in _ONE else _ROUND


def _power(ways: float, rounds: int) -> float:
    too_many = rounds * log(ways) > log(_MOST_WAYS)
    return _MOST_WAYS if too_many else ways**rounds


def _repeats_one(item: Item) -> bool:
    kind, what = item
    return kind in _REPEATS and len(what[2]) == 1 and what[2][0][0] in _ONE


def _spelt(text: str) -> list[Item]:
    return [(op.LITERAL, ord(text[0]))]


def _with_following(items: Sequence[Item]) -> Iterator[tuple[Item | str, Item | str | None]]:
    """Walk a sequence, letters in a row as one text, each with what follows it."""
    joined: list[Item | str] = []
    for is_text, group in groupby(items, key=lambda item: item[0] is op.LITERAL):
        run = list(group)
        joined += ["".join(chr(code) for _, code in run)] if is_text else run
    following: list[Item | str | None] = [*joined, None]
    yield from zip(joined, following[1:], strict=True)


def _compared(text: str, *, in_a_row: bool) -> float:
    """Return how many of its characters are compared at one of many places, on average.

    At places that follow each other its first j characters are found at one of `period` at most.
    """
    if not in_a_row:
        return len(text)
    return 1 + sum(1 / _period(text[:end]) for end in range(1, min(len(text), 64)))


def _period(text: str) -> int:
    """Return the least distance at which the text can be found again."""
    return next(by for by in range(1, len(text) + 1) if text.startswith(text[by:]))
