"""What a person is asked once before a dangerous act: how many, to where, and what is not known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A queue, or a reason, and how many messages."""

    name: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """A form that acts, with what it would do. `act` is on its button, `back` leads away from it.

    `counts` say how many, `notes` what a person must know. `fields` are hidden, and name what it is about. Nothing is
    asked if `is_empty`.
    """

    title: str
    lead: str
    act: str
    post_to: str
    back: str
    counts: Sequence[str] = ()
    notes: Sequence[str] = ()
    destinations: Sequence[Line] = ()
    others: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    fields: Sequence[tuple[str, str]] = ()
    asks_why: bool = False
    is_empty: bool = False
    leave: str = "Cancel"
