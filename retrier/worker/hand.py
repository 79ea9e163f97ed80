"""Which of the messages in hand may be started.

A message that was in hand when a process died may be the cause, or an innocent neighbour. It is a
suspect, and is handled alone: what dies then is counted to the right one (R43).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from retrier.domain.wire import Delivery, Properties
from retrier.worker.handlers import Handler


@dataclass(slots=True, kw_only=True, eq=False)
class Held:
    """A message in hand. `source` is the connection that it came over."""

    source: Any
    handler: Handler
    delivery: Delivery
    properties: Properties
    crashes: int
    retry_id: str | None
    not_before: float = 0.0
    started: float | None = None
    said: list[str] = field(default_factory=list)
    """What its handler has said of completed steps."""
    timeouts: int = 0
    """How often its handler took too long before."""
    seen_until: float = 0.0
    """When it goes to the tail again if it is too early to start it."""
    stamps: Mapping[str, str] = field(default_factory=dict)
    """What its copy for the tail says of the time that its handler has taken now."""

    @property
    def starts(self) -> int:
        """How often its handler was started before."""
        return self.crashes + self.timeouts


class Hand:
    """The messages in hand, in the order of their arrival."""

    def __init__(self, room: int) -> None:
        """`room`: how many messages the broker hands out at most."""
        self.waiting: list[Held] = []
        self.running: list[Held] = []
        self._room = room

    def __len__(self) -> int:
        return len(self.waiting) + len(self.running)

    @property
    def full(self) -> bool:
        """Whether the broker hands out no more."""
        return len(self) >= self._room

    @property
    def is_small(self) -> bool:
        """Whether it holds one message at most: then nothing ever has a neighbour."""
        return self._room == 1

    @property
    def suspects(self) -> list[Held]:
        """The messages with which a process died before, also the one that is running."""
        return [held for held in (*self.running, *self.waiting) if held.crashes]

    def add(self, held: Held) -> None:
        """Take a message into the hand."""
        self.waiting.append(held)

    def start(self, held: Held, now: float) -> None:
        """Note that the handler is started."""
        self.waiting.remove(held)
        self.running.append(held)
        held.started = now

    def hold(self, held: Held) -> None:
        """Take a message back that was started: it is the next one of its stream."""
        self.waiting.insert(0, held)
        held.started = None

    def choose(self, free: int, now: float) -> list[Held]:
        """Return the messages to start now, at most `free`, each for a thread."""
        if any(held.crashes for held in self.running):
            return []
        ready = self._find_ready(now)
        innocent = [held for held in ready if not held.crashes]
        if innocent or self.running:
            return innocent[:free]
        return ready[:1]

    def _find_ready(self, now: float) -> list[Held]:
        """Return what may be started. Two copies of one retry are never handled at a time."""
        taken = {held.retry_id for held in self.running}
        ready = []
        for held in self.waiting:
            if now >= held.not_before and (held.retry_id is None or held.retry_id not in taken):
                taken.add(held.retry_id)
                ready.append(held)
        return ready
