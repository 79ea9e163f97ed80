"""Looks whether queues exist, for previews: in bounded time, whatever the broker does."""

from collections.abc import Sequence
from contextlib import closing
from threading import BoundedSemaphore, Lock, Thread

from retrier.clock import Clock
from retrier.errors import BrokerUnavailable, QueueSilent
from retrier.http.parts import Sight
from retrier.transport.seam import Transport

MOST_QUEUES = 20
"""Queues that one look is about, at most."""

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

    def __init__(self) -> None:
        self._lock = Lock()
        self._missing: set[str] = set()
        self._unsure: dict[str, str] = {}
        self._why_not: str | None = _SLOW

    def note_missing(self, queue: str) -> None:
        with self._lock:
            self._missing.add(queue)

    def note_unsure(self, queue: str, why_not: str) -> None:
        with self._lock:
            self._unsure[queue] = why_not

    def end(self, why_not: str | None) -> None:
        with self._lock:
            self._why_not = why_not

    def read(self) -> Sight:
        with self._lock:
            return Sight(
                missing=frozenset(self._missing),
                unsure=dict(self._unsure),
                why_not=self._why_not,
            )


class QueueLooks:
    """Looks at queues in threads of their own, each with a connection of its own."""

    def __init__(self, transport: Transport, clock: Clock, seconds: float = MOST_SECONDS) -> None:
        self._transport = transport
        self._clock = clock
        self._seconds = seconds
        self._free = BoundedSemaphore(AT_ONCE)

    def look_at(self, queues: Sequence[str]) -> Sight:
        """Say which of the first 20 queues are missing; never raises, takes a second at most."""
        if not queues:
            return Sight()
        if not self._free.acquire(blocking=False):
            return Sight(why_not=_BUSY)
        found = _Findings()
        # A daemon: a broker that hangs must not hold up the end of the process.
        thread = Thread(target=self._run, args=(queues[:MOST_QUEUES], found), daemon=True)
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
        return None
