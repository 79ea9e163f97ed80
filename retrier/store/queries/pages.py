"""Pages of a list: which one is asked for, and what it holds."""

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """Which page; numbers start at 1."""

    number: int = 1
    size: int = 50

    @property
    def offset(self) -> int:
        """How many items come before the page."""
        return (self.number - 1) * self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """The items of one page, and how many the whole list has."""

    items: tuple[T, ...]
    total: int
