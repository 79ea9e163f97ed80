"""How many requests may be at work at the same time, and whose turn it is."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from retrier.http.problems import later

AT_WORK = 8
"""Requests of a kind at work at once: each may hold a thread and a database connection."""

WAITING = 100
"""Requests of a kind that wait for a place; they hold neither thread nor connection."""

WAIT_TIMEOUT = 5.0
"""Seconds to wait for a place."""

READING = frozenset({"GET", "HEAD"})
"""Methods that change nothing: reads have places of their own."""


class Places:
    """The places of one kind of requests.

    While something is locked in the database, the requests that need it hang. Without a bound they
    would take every thread of the server and every connection (decision 0021).
    """

    def __init__(
        self, at_work: int = AT_WORK, waiting: int = WAITING, timeout: float = WAIT_TIMEOUT
    ) -> None:
        self._most_waiting = waiting
        self._timeout = timeout
        self._waiting = 0
        self._free = asyncio.Semaphore(at_work)

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Hold a place while the context is open. Raises HTTPException if none is free in time."""
        await self._take()
        try:
            yield
        finally:
            self._free.release()

    async def _take(self) -> None:
        if self._waiting >= self._most_waiting:
            raise later(f"{self._waiting} requests like this wait already.")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._timeout):
                await self._free.acquire()
        except TimeoutError:
            raise later(
                f"Other requests like this are being answered, and none ended within "
                f"{self._timeout:g} s."
            ) from None
        finally:
            self._waiting -= 1
