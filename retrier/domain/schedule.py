"""The schedule: messages that are retried by themselves, each at its time, by rule and queue in turns."""

from collections.abc import Collection, Sequence
from datetime import datetime

from retrier.domain.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How many messages are scheduled, and when the first of them is due that nobody has claimed.

    `next_at` is in the past if it is due and not sent yet: the standing operation is paused, or
    others go first, or something holds it: `held` says what.
    """

    scheduled: int
    next_at: datetime | None
    held: str | None = None


Turn = tuple[str, str]
"""A rule and a queue: what is due of both goes in the order of its times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DueMessage:
    """A message that is due. `source` is what it was found by; a turn may have several sources.

    `comes_back`: so does most of what was sent to its destination lately.
    """

    number: int
    failure_seq: int
    body_size: int
    retry_at: datetime
    source: int
    turn: Turn
    comes_back: bool = False

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

    Turns whose messages come back have half of the room, if all others need the rest: a queue whose
    retries succeed must not wait for hundreds of queues whose retries fail.

    `found` has the first messages of each source, at most `depth` of each. Of a source with so many
    there may be more. What is due later than the last of these is not taken, though it is of
    another source of that turn: it would overtake them.
    """
    ends = _find_ends(found, depth)
    turns: dict[Turn, list[DueMessage]] = {}
    for each in sorted(found, key=lambda each: each.place):
        if each.place <= ends.get(each.turn, each.place):
            turns.setdefault(each.turn, []).append(each)
    # With room for one only, either would have none for as long as the other is due.
    failing = [each for each in turns.values() if each[0].comes_back and most > 1]
    sound = [each for each in turns.values() if not (each[0].comes_back and most > 1)]
    in_all, in_vain = sum(map(len, turns.values())), sum(map(len, failing))
    room = min(in_vain, max(most // 2, most - (in_all - in_vain)))
    going = [*_go_round(sound, ends, most - room), *_go_round(failing, ends, room)]
    return TurnsTaken(messages=going, are_all=not ends and len(going) == in_all)


def _go_round(
    turns: Sequence[Sequence[DueMessage]], ends: Collection[Turn], room: int
) -> list[DueMessage]:
    """Return the first messages of these turns, then their second ones, as long as there is room."""
    going: list[DueMessage] = []
    for place in range(max(map(len, turns), default=0)):
        members = [each for each in turns if len(each) > place]
        last = {each[0].turn for each in members if len(each) == place + 1}
        one_each = sorted((each[place] for each in members), key=lambda each: each.place)
        going += _share(one_each, last.difference(ends), room - len(going))
        if len(going) == room:
            break
    return going


def _share(
    members: Sequence[DueMessage], last: Collection[Turn], room: int
) -> Sequence[DueMessage]:
    """Return those of one round that have room: half of them are those that are due for longest.

    The other half are of turns of which least waits, so that a queue that fails now and then does
    not wait for hundreds that always do. Behind those of the turns in `last` nothing waits. How much
    waits behind the others is known only as far as anybody has looked; so the one is taken for
    least that became due last.
    """
    if len(members) <= room:
        return members
    half = (room + 1) // 2
    longest, others = members[:half], members[half:]
    alone = [each for each in others if each.turn in last]
    followed = [each for each in others if each.turn not in last]
    return [*longest, *[*alone, *reversed(followed)][: room - half]]


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
