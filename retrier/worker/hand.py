"""What a worker has in hand, and what it does next. It knows no broker, no thread and no clock.

A message is *received*, *started*, then *unsettled* (finished or put back, and not yet acknowledged), and
*settled*. The broker's events and the ends of handlers are told to `Hand`; `decide` answers with what is
to be done. The loop does just that, and nothing else decides what is started.

What counts as a crash is what was started. A message that was started by a process that died is a
*suspect*: it may have caused it. It is started only when everything else of this process is settled
(put back, confirmed, acknowledged), so that what dies then is counted to the right one, and to no
other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from retrier.domain import headers
from retrier.domain.wire import Delivery, Properties
from retrier.worker.handlers import Handler

CALM_AFTER = 50
CALM_SECONDS = 2.0
"""So many messages after a suspect that had not come back, or so long: then several are taken at a time
again. A handler may take hours, and must not hold up the other threads for as long."""


@dataclass(slots=True, kw_only=True, eq=False)
class Held:
    """A message in hand. `source` is the connection that it came over."""

    source: Any
    handler: Handler
    delivery: Delivery
    properties: Properties
    crashes: int
    """How often it was started, and did not finish."""
    retry_id: str | None
    returns: int = 0
    """How often it came back, and nobody here knows whether it was started."""
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
    place: int = 0
    """Where it is noted that it is in hand."""

    @property
    def starts(self) -> int:
        """How often its handler was started before."""
        return self.crashes + self.timeouts

    @property
    def is_suspect(self) -> bool:
        """Whether a process may have died of it."""
        return bool(self.crashes or self.returns)

    @property
    def is_plain(self) -> bool:
        """Whether nothing has to be looked at before it is started."""
        return not (
            self.crashes or self.returns or self.timeouts or self.retry_id or self.not_before
        )


class Mode(Enum):
    """How messages are taken. At first one at a time, so that what came back is alone (R43)."""

    CAREFUL = "one message at a time"
    OPEN = "as many as there is room for"
    CEASED = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mood:
    """What goes on around the hand."""

    paused: bool = False
    """Something is away, or the breaker is open."""
    trying: bool = False
    """The breaker is half open: one message at a time is tried."""
    stopping: bool = False
    overdue: bool = False
    """The order to stop was so long ago that nothing is started any more."""


@dataclass(frozen=True, slots=True)
class Cease:
    """Consume no more; what has arrived unseen is still to be received."""


@dataclass(frozen=True, slots=True)
class PutBack:
    """Publish these to the tail of their queues, with their counts as they are."""

    several: Sequence[Held]


@dataclass(frozen=True, slots=True)
class Prove:
    """Wait until the broker has read all acknowledgements: a suspect is about to be started."""


@dataclass(frozen=True, slots=True)
class Start:
    """Start these, at most one for each free thread."""

    several: Sequence[Held]


@dataclass(frozen=True, slots=True)
class CalmDown:
    """Take from the next queue, or from all as fast as can be: nothing comes back any more."""


@dataclass(frozen=True, slots=True)
class Take:
    """Receive messages; `idle` if there is nothing else to wait for."""

    idle: bool


@dataclass(frozen=True, slots=True)
class Await:
    """Wait for handlers, for a pause to end, or for the time of a message."""


@dataclass(frozen=True, slots=True)
class Leave:
    """Nothing is in hand, and nothing is taken: the connections may be closed."""


Decision = Cease | PutBack | Prove | Start | CalmDown | Take | Await | Leave
_CEASE, _PROVE, _CALM_DOWN, _AWAIT, _LEAVE = Cease(), Prove(), CalmDown(), Await(), Leave()
_TAKE, _TAKE_IDLE = Take(idle=False), Take(idle=True)


class Hand:
    """The messages in hand, in the order of their arrival."""

    def __init__(self, room: int, threads: int, *, hold_streams: bool = False) -> None:
        """`room`: how many messages the broker hands out at most."""
        self.waiting: list[Held] = []
        self.running: list[Held] = []
        self.unsettled = 0
        self.mode = Mode.CAREFUL
        self._room = room
        self._threads = threads
        self._hold_streams = hold_streams
        self._special = 0
        """How many in hand are not plain."""
        self._calm = 0
        self._calm_after = 1
        self._calm_at = 0.0
        self._is_proved = False

    def __len__(self) -> int:
        return len(self.waiting) + len(self.running)

    @property
    def full(self) -> bool:
        """Whether the broker hands out no more."""
        return len(self) >= self._room

    @property
    def suspects(self) -> list[Held]:
        """The suspects in hand, also the one that is running."""
        if not self._special:
            return []
        return [held for held in (*self.running, *self.waiting) if held.is_suspect]

    # What the loop tells.

    def open(self, now: float, *, expects_suspects: bool) -> None:
        """Note that messages are consumed, one at a time at first if there is room for more."""
        self.mode = Mode.CAREFUL if self._room > 1 else Mode.OPEN
        self._is_proved = False
        self._calm = 0
        if expects_suspects:
            self._expect_more(now)

    def close(self) -> None:
        """Note that the connections are gone: all but what is running comes again."""
        self.waiting.clear()
        self.unsettled = 0
        self.mode = Mode.CEASED
        self._special = sum(not held.is_plain for held in self.running)

    def receive(self, held: Held) -> None:
        """Take a message into the hand."""
        self.waiting.append(held)
        self._special += not held.is_plain

    def note_arrivals(self, several: int, now: float, *, clean: bool) -> None:
        """Note what came while one message at a time was taken; `clean`: nothing had come back."""
        if not clean:
            self._expect_more(now)
        elif several:
            self._calm += several
        else:
            self._calm = self._calm_after  # nothing is there that could come back

    def calm_down(self, *, last: bool) -> None:
        """Note that the next queue is taken from, or that the last one was calm."""
        self._calm = 0
        if last:
            self.mode = Mode.OPEN
            self._calm_after = 1

    def cease(self) -> None:
        """Note that no more is consumed."""
        self.mode = Mode.CEASED

    def prove(self) -> None:
        """Note that the broker has read all acknowledgements."""
        self._is_proved = True

    def start(self, held: Held, now: float) -> None:
        """Note that the handler is started."""
        self._take_out(held)
        self.running.append(held)
        self._special += not held.is_plain
        held.started = now

    def end(self, held: Held) -> bool:
        """Note that its handler has ended; return False if it was given up meanwhile."""
        if held not in self.running:
            return False
        self.running.remove(held)
        self._special -= not held.is_plain
        return True

    def hold(self, held: Held) -> None:
        """Take a message back whose handler has ended: it is the next one of its stream."""
        self.waiting.insert(0, held)
        self._special += not held.is_plain
        held.started = None

    def put_back(self, held: Held) -> None:
        """Note that a message goes back which was not started."""
        self._take_out(held)

    def give_up(self, held: Held) -> None:
        """Note that a message is not waited for any more though its handler runs."""
        self.end(held)

    def unsettle(self) -> None:
        """Note that something is to be published for a message, or acknowledged."""
        self.unsettled += 1
        self._is_proved = False

    def settle(self, several: int) -> None:
        """Note that so many are acknowledged."""
        self.unsettled -= several

    # What the loop asks.

    def is_held(self, held: Held) -> bool:
        """Return whether it keeps its place: it goes to the tail of its queue only at an end."""
        return self._hold_streams and held.properties.text(headers.STREAM) is not None

    def decide(self, now: float, mood: Mood) -> Decision:
        """Return what is to be done next."""
        if self.has_to_cease(mood):
            return _CEASE
        if self._special or self.mode is Mode.CEASED:
            back = self._find_back(now, mood)
            if back:
                return PutBack(back)
        chosen = () if mood.paused or mood.overdue else self._choose(now, mood)
        if chosen:
            is_alone = not chosen[0].is_suspect or self._is_proved or self.mode is not Mode.CEASED
            return Start(chosen) if is_alone else _PROVE
        return self._wait(now, mood)

    def has_to_cease(self, mood: Mood) -> bool:
        """Return whether to consume no more: for an end, for a pause, or for a suspect with neighbours.

        A pause leaves messages to others; not while a message of a stream is held, which would lose
        its place.
        """
        if self.mode is Mode.CEASED:
            return False
        if mood.stopping:
            return True
        if mood.paused and not any(map(self.is_held, self.waiting)):
            return True
        return (
            bool(self._special)
            and self.mode is Mode.OPEN
            and self._room > 1
            and bool(self.suspects)
        )

    def _find_back(self, now: float, mood: Mood) -> Sequence[Held]:
        """Return what is put to the tail: to requeue it would count as a crash (R44)."""
        if self.mode is not Mode.CEASED:
            return [h for h in self.waiting if h.timeouts and h.seen_until <= now < h.not_before]
        if mood.stopping and self._room == 1 and not (mood.paused or mood.overdue):
            return []  # it is handled before the end: with one message in hand, order is kept
        suspects = [] if mood.paused or mood.stopping else self.suspects[:1]
        return [h for h in self.waiting if h not in suspects and not self.is_held(h)]

    def _choose(self, now: float, mood: Mood) -> Sequence[Held]:
        free = (1 if mood.trying else self._threads) - len(self.running)
        if free <= 0 or not self.waiting:
            return ()
        if not self._special:
            return self.waiting[:free]
        if any(held.is_suspect for held in self.running):
            return ()
        innocent = [held for held in self._find_ready(now) if not held.is_suspect]
        if innocent:
            return innocent[:free]
        is_alone = len(self) == 1 and not self.unsettled
        return self._find_ready(now) if is_alone else ()

    def _find_ready(self, now: float) -> list[Held]:
        """Return what may be started. Two copies of one retry are never handled at a time."""
        taken = {held.retry_id for held in self.running}
        ready = []
        for held in self.waiting:
            if now >= held.not_before and (held.retry_id is None or held.retry_id not in taken):
                taken.add(held.retry_id)
                ready.append(held)
        return ready

    def _wait(self, now: float, mood: Mood) -> Decision:
        if self.mode is Mode.CEASED:
            is_done = not (self.running or self.unsettled)
            # Whoever stops waits for no message that is not started: it keeps its place.
            return _LEAVE if is_done and (mood.stopping or not self.waiting) else _AWAIT
        if self.full or mood.paused or (mood.trying and len(self)):
            return _AWAIT
        if self.mode is Mode.CAREFUL:
            return self._wait_carefully(now)
        return _TAKE if len(self) else _TAKE_IDLE

    def _wait_carefully(self, now: float) -> Decision:
        if self.suspects:
            return _AWAIT
        if self._calm >= self._calm_after or (self._calm_after > 1 and now >= self._calm_at):
            return _CALM_DOWN
        # The broker hands out one at a time: while it is in hand, nothing comes.
        return _AWAIT if len(self) or self.unsettled else _TAKE_IDLE

    def _expect_more(self, now: float) -> None:
        self._calm, self._calm_after, self._calm_at = 0, CALM_AFTER, now + CALM_SECONDS

    def _take_out(self, held: Held) -> None:
        self.waiting.remove(held)
        self._special -= not held.is_plain
