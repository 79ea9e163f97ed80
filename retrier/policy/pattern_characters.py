"""Which characters an item of a parsed regular expression takes, so that two can be told apart."""

import re
from re import _constants as op  # type: ignore[attr-defined]
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
