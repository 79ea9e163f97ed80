"""The names in the query of an address: which of them nobody reads, and which stand twice.

A misspelled condition would be no condition: a list would show everything, and an act that is asked
for from it would be about everything.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Any

from retrier.domain.text import COLUMN_BYTES
from retrier.domain.values import dataclass

_LONGEST_SHOWN = 100
_MOST_SHOWN = 20
FAMILY = ".*"
"""What a known name ends with that stands for all names with its beginning: `field.*`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """A name that nobody reads, or that stands twice (`nearest` is itself then)."""

    name: str
    nearest: str | None

    @property
    def is_repeated(self) -> bool:
        """Whether it is known, and stands there more than once."""
        return self.name == self.nearest

    @property
    def shown(self) -> str:
        """The name, cut to what fits a line."""
        return self.name[:_LONGEST_SHOWN]


def find_strays(
    given: Iterable[str], known: Collection[str], lists: Collection[str] = ()
) -> Sequence[Stray]:
    """Return the names that are not known, and those that stand twice and are no lists.

    Names that begin with `_`, and bare numbers, are what clients write so that no cache answers.
    """
    counted = Counter(given)
    strays = (
        Stray(name=name, nearest=name if _is_known(name, known) else nearest(name, known))
        for name, count in counted.items()
        if (count > 1 and name not in lists if _is_known(name, known) else not _says_nothing(name))
    )
    return tuple(islice(strays, _MOST_SHOWN))


def find_too_long(given: Iterable[tuple[str, str]], others: Mapping[str, int]) -> str | None:
    """Return a name whose value is longer than what a message may have; None if there is none.

    A database that has to look for such a text refuses, as if it were out of reach. `others` are
    names with a bound of their own.
    """
    for name, value in given:
        if len(value.encode(errors="replace")) > others.get(name, COLUMN_BYTES):
            return name
    return None


def names_read_by(dependant: Any) -> Iterator[str]:
    """Yield the parameters that a route of the web framework, and what it depends on, reads."""
    for each in dependant.query_params:
        yield each.alias
    for each in dependant.dependencies:
        yield from names_read_by(each)


def _is_known(name: str, known: Collection[str]) -> bool:
    family, dot, _ = name.partition(".")
    return name in known or (bool(dot) and f"{family}{FAMILY}" in known)


def _says_nothing(name: str) -> bool:
    return not name or name.startswith("_") or (name.isascii() and name.isdecimal())


def nearest(name: str, known: Collection[str]) -> str | None:
    """Return the known name that a misspelled one is perhaps meant to be; None if none is near."""
    close = get_close_matches(name[:_LONGEST_SHOWN], sorted(known), n=1)
    return close[0] if close else None
