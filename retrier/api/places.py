"""Places: how many requests are at work at once, while others wait their turn."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import HTTPException, Request

AT_WORK = 8
"""Requests of a kind at work at once: each may hold a thread and a connection to the database."""

WAITING = 100
"""Requests of a kind that wait for a place; who waits holds neither."""

PATIENCE = 5.0
"""Seconds to wait for a place."""

_READING = frozenset({"GET", "HEAD"})


class Places:
    """The places of one kind of requests.

    A database in which something is locked answers none that needs it. Without a bound they would
    take every thread of the server and every connection.
    """

    def __init__(
        self, at_work: int = AT_WORK, waiting: int = WAITING, patience: float = PATIENCE
    ) -> None:
        self._most_waiting = waiting
        self._patience = patience
        self._waiting = 0
        self._free = asyncio.Semaphore(at_work)

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Hold a place meanwhile. Raises HTTPException when none becomes free in time."""
        await self._take()
        try:
            yield
        finally:
            self._free.release()

    async def _take(self) -> None:
        if self._waiting >= self._most_waiting:
            raise _crowded(f"{self._waiting} requests like this wait already.")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._patience):
                await self._free.acquire()
        except TimeoutError:
            raise _crowded(
                f"Other requests like this are being answered, and none ended within "
                f"{self._patience:g} s."
            ) from None
        finally:
            self._waiting -= 1


async def take_place(request: Request) -> AsyncIterator[None]:
    """Let a request wait for a place of its kind: what reads keeps no act out, nor the reverse."""
    parts = request.app.state.parts
    places: Places = parts.reads if request.method in _READING else parts.acts
    async with places.taken():
        yield


def _crowded(detail: str) -> HTTPException:
    return HTTPException(503, detail, {"Retry-After": str(round(PATIENCE))})
