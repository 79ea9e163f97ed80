"""A name with what it stands for: one line of what is known of a thing."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One line. `live` is the key of the text that replaces the value; `when` is shown as a time."""

    name: str
    value: str = ""
    live: str | None = None
    link: str | None = None
    when: datetime | None = None


def time_facts(**moments: datetime | None) -> Iterator[Fact]:
    """Yield the moments that are known; the names are those of the arguments."""
    for name, moment in moments.items():
        if moment is not None:
            yield Fact(name=name.replace("_", " ").capitalize(), when=moment)
