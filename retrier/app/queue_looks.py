"""Whether the broker has certain queues: looked up in a bounded time, or asked once and remembered."""

from collections.abc import Callable, Sequence
from contextlib import closing
from threading import BoundedSemaphore, Lock, Thread

from retrier.clock import Clock
from retrier.errors import BrokerUnavailable, QueueSilent
from retrier.http.parts import MissingQueues
from retrier.transport.seam import Transport

MOST_SECONDS = 1.0
"""How long one look is waited for."""

AT_ONCE = 2
"""Looks at the same time: a broker that hangs holds so many threads, and no more."""

_BUSY = "others are looking, and the broker has not answered them yet"
_AWAY = "the broker cannot be reached"
_SILENT = "the queue does not answer, though the broker does"
_NO_ANSWER = "the broker refused to say, or the connection broke"
_SLOW = f"the broker did not answer within {MOST_SECONDS:g} s"


class _Findings:
    """What a look has found so far: filled by its thread, read by who waits for it."""

    def __init__(self, asked: int) -> None:
        self._lock = Lock()
        self._missing: set[str] = set()
        self._unsure: dict[str, str] = {}
        self._why_not: str | None = _SLOW
        self._asked = asked
        self._looked_at = 0

    def note_missing(self, queue: str) -> None:
        with self._lock:
            self._missing.add(queue)

    def note_unsure(self, queue: str, why_not: str) -> None:
        with self._lock:
            self._unsure[queue] = why_not

    def note_look(self) -> None:
        with self._lock:
            self._looked_at += 1

    def end(self, why_not: str | None) -> None:
        with self._lock:
            self._why_not = why_not

    def read(self) -> MissingQueues:
        with self._lock:
            return MissingQueues(
                missing=frozenset(self._missing),
                unsure=dict(self._unsure),
                why_not=self._why_not,
                not_looked_at=(0, 0)
                if self._why_not is None
                else (self._asked - self._looked_at, self._asked),
            )


class QueueLooks:
    """Looks at queues in threads of their own, each with a connection of its own."""

    def __init__(self, transport: Transport, clock: Clock, seconds: float = MOST_SECONDS) -> None:
        self._transport = transport
        self._clock = clock
        self._seconds = seconds
        self._free = BoundedSemaphore(AT_ONCE)

    def look_at(self, queues: Sequence[str]) -> MissingQueues:
        """Say which of these queues are missing; never raises, takes a second at most.

        They are looked at in this order: those that matter most come first.
        """
        if not queues:
            return MissingQueues()
        if not self._free.acquire(blocking=False):
            return MissingQueues(why_not=_BUSY, not_looked_at=(len(queues), len(queues)))
        found = _Findings(len(queues))
        # A daemon: a broker that hangs must not hold up the end of the process.
        thread = Thread(target=self._run, args=(queues, found), daemon=True)
        thread.start()
        thread.join(self._seconds)
        return found.read()

    def _run(self, queues: Sequence[str], found: _Findings) -> None:
        try:
            found.end(self._look(queues, found))
        except BrokerUnavailable:
            found.end(_AWAY)
        finally:
            self._free.release()

    def _look(self, queues: Sequence[str], found: _Findings) -> str | None:
        end = self._clock.monotonic() + self._seconds
        with closing(self._transport.queues()) as connected:
            for queue in queues:
                if self._clock.monotonic() > end:
                    return _SLOW
                # A look that fails says nothing about the other queues.
                try:
                    if not connected.exists(queue):
                        found.note_missing(queue)
                except QueueSilent:
                    found.note_unsure(queue, _SILENT)
                except BrokerUnavailable:
                    found.note_unsure(queue, _NO_ANSWER)
                found.note_look()
        return None


MOST_NAMES = 100
"""Names that are remembered, and so asked in a minute: a sender may write any number of them."""

KEPT = 60.0
"""Seconds for which an answer holds: the queue may be declared, or deleted."""

KEPT_UNKNOWN = 5.0
"""Seconds until the broker is asked again that has not answered."""


LOOK_SECONDS = 5.0
"""How long ingestion waits for one answer: longer than a person, as a wrong name misleads a retry."""


class WholeNames:
    """Answers from its memory if it can; never raises, and takes as long as one look at most.

    A broker that has not answered is not asked about other names either, for a while.
    """

    def __init__(self, look_at: Callable[[Sequence[str]], MissingQueues], clock: Clock) -> None:
        self._look_at = look_at
        self._clock = clock
        self._lock = Lock()
        self._known: dict[str, tuple[bool, float]] = {}
        self._rests_until = float("-inf")

    def exists(self, queue: str) -> bool:
        """Return whether the broker has it; False too if nobody can say, or too many are asked."""
        with self._lock:
            now = self._clock.monotonic()
            self._known = {name: each for name, each in self._known.items() if each[1] > now}
            if queue in self._known:
                return self._known[queue][0]
            if len(self._known) >= MOST_NAMES or now < self._rests_until:
                return False
            seen = self._look_at([queue])
            is_known = seen.why_not is None and queue not in seen.unsure
            if seen.why_not is not None:
                self._rests_until = self._clock.monotonic() + KEPT_UNKNOWN
            found = is_known and queue not in seen.missing
            kept = KEPT if is_known else KEPT_UNKNOWN
            self._known[queue] = found, self._clock.monotonic() + kept
            return found
