"""Turns: rules and queues share what may be sent of what is due by policy."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

Turn = tuple[str, str]
"""A rule and a queue: what is due of both goes in the order of its times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DueMessage:
    """A message that is due. `source` is what it was found by; a turn may have several sources."""

    number: int
    failure_seq: int
    body_size: int
    retry_at: datetime
    source: int
    turn: Turn

    @property
    def place(self) -> tuple[datetime, int]:
        """Its place in its turn."""
        return self.retry_at, self.failure_seq


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnsTaken:
    """What goes now, in order. `are_all`: nothing else is due of the sources that were found."""

    messages: Sequence[DueMessage]
    are_all: bool


def take_turns(found: Sequence[DueMessage], depth: int, most: int) -> TurnsTaken:
    """Let each rule and queue have one message sent, then each a second one, and so on.

    `found` has the first messages of each source, at most `depth` of each. Of a source with so many
    there may be more. What is due later than the last of these is not taken, though it is of
    another source of that turn: it would overtake them.
    """
    ends = _find_ends(found, depth)
    ranks: dict[Turn, int] = {}
    ranked = []
    for each in sorted(found, key=lambda each: each.place):
        if each.place <= ends.get(each.turn, each.place):
            ranks[each.turn] = ranks.get(each.turn, 0) + 1
            ranked.append((ranks[each.turn], each.place, each))
    going = [each for *_, each in sorted(ranked, key=lambda one: one[:2])]
    return TurnsTaken(messages=going[:most], are_all=not ends and len(going) <= most)


def _find_ends(found: Sequence[DueMessage], depth: int) -> dict[Turn, tuple[datetime, int]]:
    """Return up to where it is known what is due of a turn; nothing of one that is known whole."""
    sources: dict[int, list[DueMessage]] = {}
    for each in found:
        sources.setdefault(each.source, []).append(each)
    ends: dict[Turn, tuple[datetime, int]] = {}
    for members in sources.values():
        if len(members) >= depth:
            turn, last = members[0].turn, max(each.place for each in members)
            ends[turn] = min(last, ends.get(turn, last))
    return ends
