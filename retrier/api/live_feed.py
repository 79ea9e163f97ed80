"""The live feed: everybody who follows the event log in this process, served by one thread.

The thread begins with the first reader and ends with the last one: without readers nobody looks.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from fastapi import HTTPException

from retrier.api.relay import EventThread, Relay
from retrier.errors import DatabaseUnavailable
from retrier.events.event import Emit, ignore
from retrier.store.engine.database import Database

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
        self._most = most
        self._readers = 0
        self._relay: Relay | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopped = False

    @asynccontextmanager
    async def joined(self) -> AsyncIterator[Relay]:
        """Be a reader while the context is open.

        Raises HTTPException if there is no place left, and DatabaseUnavailable.
        """
        if self._stopped:
            raise _later("The service is being stopped.")
        if self._readers >= self._most:
            raise _later(f"{self._readers} readers follow the events of this process already.")
        with self._counted() as relay:
            with suppress(TimeoutError):
                async with asyncio.timeout(_BEGIN_TIMEOUT):
                    await relay.begun.wait()
            if relay.failure is not None or not relay.begun.is_set():
                raise DatabaseUnavailable(relay.failure or "it has not answered in time")
            yield relay

    def stop(self) -> None:
        """End all answers, and refuse new readers; any thread may call it."""
        self._stopped = True
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
        self._readers += 1
        relay.readers += 1
        try:
            yield relay
        finally:
            self._readers -= 1
            relay.readers -= 1
            if relay.readers == 0:
                relay.over.set()

    def _start(self) -> Relay:
        relay, self._loop = Relay(), asyncio.get_running_loop()
        run = EventThread(self._db, self._emit, relay, self._loop).run
        self._thread = threading.Thread(target=run, name="events", daemon=True)
        self._thread.start()
        return relay


def _later(detail: str) -> HTTPException:
    return HTTPException(503, detail, {"Retry-After": "5"})
