"""Lists in pages, and addresses that differ in one value from the one that is shown."""

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar
from urllib.parse import urlencode

from retrier.domain.values import dataclass
from retrier.http.problems import WrongField

T = TypeVar("T")

PAGE = 50
"""Rows of a page."""
LAST_PAGE = 10_000
"""Nobody turns so many pages: who gets here is looking for something, and should say what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedList(Generic[T]):
    """The rows of one page, how many there are in all, and the values in the address.

    `page` is the name of the value that says which page it is.
    """

    rows: Sequence[T]
    total: int
    number: int
    path: str
    values: Mapping[str, str]
    size: int = PAGE
    page: str = "page"

    @property
    def first(self) -> int:
        """Which row of the list is the first one here; 0 if there is none."""
        return (self.number - 1) * self.size + 1 if self.rows else 0

    @property
    def last(self) -> int:
        """Which row of the list is the last one here."""
        return (self.number - 1) * self.size + len(self.rows)

    @property
    def before(self) -> str | None:
        """The address of the page before; None on the first one."""
        return self.to(**{self.page: str(self.number - 1)}) if self.number > 1 else None

    @property
    def after(self) -> str | None:
        """The address of the next page; None on the last one, and where pages end before the list."""
        is_last = self.last >= self.total or self.number >= LAST_PAGE
        return None if is_last else self.to(**{self.page: str(self.number + 1)})

    @property
    def is_cut(self) -> bool:
        """Whether the list goes on where no page does: a next one would be this one again."""
        return self.number >= LAST_PAGE and self.last < self.total

    def to(self, **values: str) -> str:
        """Return this address with other values; an empty one is left out, and so is page 1."""
        found = {**self.values, self.page: "", **values}
        kept = {
            name: each for name, each in found.items() if each and (name, each) != (self.page, "1")
        }
        return f"{self.path}?{urlencode(kept)}" if kept else self.path


def page_number(text: str, name: str = "page") -> int:
    """Return which page an address names, by a parameter with this name. Raises WrongField."""
    if text and not (text.isascii() and text.isdecimal()):
        raise WrongField(f"query.{name}", f"What is said of {name} is no number: {text[:100]}.")
    return min(max(1, int(text[:6] or 1)), LAST_PAGE)
