"""Text on its way into a column: only what the database takes, and no longer than it may be."""

from typing import overload

from retrier.domain.text import LONG_BYTES, clean

_ID_BYTES = 36


@overload
def short(text: str) -> str: ...
@overload
def short(text: None) -> None: ...
@overload
def short(text: str | None) -> str | None: ...
def short(text: str | None) -> str | None:
    """Cut to what an index holds (1 kB)."""
    return None if text is None else clean(text)


def long(text: str | None) -> str | None:
    """Cut to what a person would read (64 kB)."""
    return None if text is None else clean(text, LONG_BYTES)


def identifier(text: str | None) -> str | None:
    """Cut to the length of our ids."""
    return None if text is None else clean(text, _ID_BYTES)
