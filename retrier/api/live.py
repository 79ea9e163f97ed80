"""The live feed: everybody who follows the event log in this process, served by one thread.

The thread begins with the first reader and ends with the last one: without readers nobody looks.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import takewhile

from retrier.errors import DatabaseUnavailable
from retrier.events.event import Emit, ignore
from retrier.events.service import PartFailed
from retrier.http.live_answer import Readers
from retrier.store.engine.database import Database
from retrier.store.engine.requests import Wait, listening_for_events
from retrier.store.event_log import EventReader, LoggedEvent

KEPT = 500
"""Events in memory; a reader that lags behind them reads on in the database, at its own pace."""

_LOOK = 0.5
"""Seconds between two looks if nothing wakes the thread earlier."""
_LOOK_WHEN_HELD = 0.1
"""The same while events are held back: nothing announces a transaction that is rolled back."""
_BREATH = 0.05
"""Seconds after each look: a flood of notifications makes twenty looks a second, not more."""
_PAUSE = 2.0
"""Seconds after which a database that was lost is tried again."""


class Relay:
    """What one run of the thread has read, for the readers of that time.

    All of it belongs to the event loop; the thread reads `over`, and nothing else.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self.readers = 0
        self.position = 0
        self.begun = asyncio.Event()
        """Set when the first look is done, or when it failed."""
        self.failure: DatabaseUnavailable | None = None
        """Why there was no first look."""
        self.changed = asyncio.Event()
        """Set when the position has moved or all is over; from then on it is another one."""
        self.over = threading.Event()
        """Ends the thread, and the answers of the readers."""
        self._most = kept
        self._kept: deque[LoggedEvent] = deque()
        self._kept_from = 0

    def begin(self, position: int) -> None:
        """Note where the thread begins: what comes next has higher ids."""
        self.position = self._kept_from = position
        self.begun.set()

    def publish(self, position: int, events: Sequence[LoggedEvent]) -> None:
        """Hand on what the thread has read, which is all there is up to this position."""
        self._kept.extend(events)
        while len(self._kept) > self._most:
            self._kept_from = self._kept.popleft().event_id
        self.position = position
        self._wake()

    def end(self, failure: DatabaseUnavailable | None = None) -> None:
        """End the thread, and the answers of all readers."""
        self.failure = self.failure or failure
        self.over.set()
        self.begun.set()
        self._wake()

    def find_after(self, event_id: int) -> Sequence[LoggedEvent] | None:
        """Return the events with higher ids; None if some of them are not in memory any more."""
        if event_id < self._kept_from:
            return None
        newest_first = takewhile(lambda each: each.event_id > event_id, reversed(self._kept))
        return tuple(newest_first)[::-1]

    def _wake(self) -> None:
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()


class EventThread:
    """Reads for one relay, in a thread of its own, with connections of its own."""

    def __init__(
        self, db: Database, emit: Emit, relay: Relay, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._reader = EventReader(db)
        self._db = db
        self._emit = emit
        self._relay = relay
        self._loop = loop
        self._begun = False

    def run(self) -> None:
        """Read until the relay is over. A database that is lost is tried again and again.

        If that happens before the first look is done, the relay ends with the reason.
        """
        try:
            while not self._relay.over.is_set():
                self._follow()
        except Exception as error:  # noqa: BLE001 - the edge of the thread
            self._emit(PartFailed(part="events", error=error))
        # Clients connect again, to a thread that begins anew.
        self._tell(self._relay.end)

    def _follow(self) -> None:
        try:
            with listening_for_events(self._db, self._relay.over) as wait:
                if not self._begun:
                    self._begin(wait)
                while not self._relay.over.is_set():
                    self._look(wait)
        except DatabaseUnavailable as error:
            if not self._begun:
                self._tell(self._relay.end, error)
            self._relay.over.wait(_PAUSE)

    def _begin(self, wait: Wait) -> None:
        """Find the place to begin at: everything before it is settled, for who asks for it later."""
        self._reader.begin()
        while not self._reader.settle() and not self._relay.over.is_set():
            wait(_LOOK_WHEN_HELD)
        self._begun = True
        self._tell(self._relay.begin, self._reader.position)

    def _look(self, wait: Wait) -> None:
        before = self._reader.position
        events = self._reader.read()
        if self._reader.position != before:
            self._tell(self._relay.publish, self._reader.position, events)
        if not events:
            wait(_LOOK_WHEN_HELD if self._reader.is_held else _LOOK)
        self._relay.over.wait(_BREATH)

    def _tell(self, act: Callable[..., None], *arguments: object) -> None:
        # A loop that is closed has no readers any more.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(act, *arguments)


MOST_READERS = 100
"""Readers that one process serves at the same time."""

_BEGIN_TIMEOUT = 5.0
"""Seconds for which a reader waits for the first look of the thread."""


class LiveFeed:
    """The readers of one process. All but `stop` and `wait` belongs to the event loop."""

    def __init__(self, db: Database, emit: Emit = ignore, most: int = MOST_READERS) -> None:
        """Read in this database; nothing is connected before the first reader."""
        self._db = db
        self._emit = emit
        self._readers = Readers(most, "readers follow the events of this process")
        self._relay: Relay | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @asynccontextmanager
    async def joined(self) -> AsyncIterator[Relay]:
        """Be a reader while the context is open.

        Raises HTTPException if there is no place left.
        """
        with self._readers.joined(), self._counted() as relay:
            with suppress(TimeoutError):
                async with asyncio.timeout(_BEGIN_TIMEOUT):
                    await relay.begun.wait()
            if relay.failure is not None or not relay.begun.is_set():
                raise relay.failure or DatabaseUnavailable("it has not answered in time")
            yield relay

    def stop(self) -> None:
        """End all answers, and refuse new readers; any thread may call it."""
        self._readers.is_over = True
        relay, loop = self._relay, self._loop
        if relay is not None and loop is not None:
            # A loop that is closed has no readers any more.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(relay.end)

    def wait(self, seconds: float) -> None:
        """Wait so long for the end of the thread, after `stop`."""
        if self._thread is not None:
            self._thread.join(seconds)

    @contextmanager
    def _counted(self) -> Iterator[Relay]:
        relay = self._relay
        if relay is None or relay.over.is_set():
            relay = self._relay = self._start()
        relay.readers += 1
        try:
            yield relay
        finally:
            relay.readers -= 1
            if relay.readers == 0:
                relay.over.set()

    def _start(self) -> Relay:
        relay, self._loop = Relay(), asyncio.get_running_loop()
        run = EventThread(self._db, self._emit, relay, self._loop).run
        self._thread = threading.Thread(target=run, name="events", daemon=True)
        self._thread.start()
        return relay
