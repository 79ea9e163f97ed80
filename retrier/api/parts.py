"""What the API is built from, and how many requests may be at work at the same time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock
from typing import Annotated, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Depends, HTTPException, Request

from retrier.api.answers import AnswerCache
from retrier.api.live import LiveFeed
from retrier.domain.hosts import Hosts
from retrier.domain.wire import PropertyCodec
from retrier.errors import ConfigurationError
from retrier.gateway import Gateway
from retrier.policy.policy_set import InForce, PolicySet
from retrier.store.engine.database import Database

AT_WORK = 8
"""Requests of a kind at work at once: each may hold a thread and a database connection."""

WAITING = 100
"""Requests of a kind that wait for a place; they hold neither thread nor connection."""

WAIT_TIMEOUT = 5.0
"""Seconds to wait for a place."""

_READING = frozenset({"GET", "HEAD"})


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
            raise _crowded(f"{self._waiting} requests like this wait already.")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._timeout):
                await self._free.acquire()
        except TimeoutError:
            raise _crowded(
                f"Other requests like this are being answered, and none ended within "
                f"{self._timeout:g} s."
            ) from None
        finally:
            self._waiting -= 1


async def take_place(request: Request) -> AsyncIterator[None]:
    """Hold a place of the request's kind: so reads cannot block acts, nor acts reads."""
    parts = request.app.state.parts
    places: Places = parts.reads if request.method in _READING else parts.acts
    async with places.taken():
        yield


def _crowded(detail: str) -> HTTPException:
    return HTTPException(503, detail, {"Retry-After": str(round(WAIT_TIMEOUT))})


T = TypeVar("T")


def have_none() -> InForce:
    """Return what is in force where there are no policies."""
    return InForce(policies=PolicySet(), is_configured=False, loaded_at=_EPOCH)


def refuse_policies(_content: object) -> PolicySet:
    """Read no other policies. Raises ConfigurationError."""
    raise ConfigurationError(["policies: they cannot be read here"])


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WATCHERS = 40
"""Threads for health and metrics; each is busy for a few seconds at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """Which queues the broker does not have.

    `unsure` says of single queues why it is not known; `why_not` says why the look ended early.
    """

    missing: frozenset[str] = frozenset()
    unsure: Mapping[str, str] = field(default_factory=dict)
    why_not: str | None = None


def see_nothing(_queues: Sequence[str]) -> Sight:
    """Take every queue for existing, without a look."""
    return Sight()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiParts:
    """What the handlers work with; `policies` returns the set in force.

    `read_policies` makes a set of what would be the section of that name, or raises
    ConfigurationError. One simulation runs at a time (`simulating`).

    `db` is for reading, and `codec` decodes the properties of what is read. `health` returns for
    each part of the service whether it works, and a reason. `metrics` takes an Accept header and
    returns content type and text of a scrape. `feed` serves who follows the event log. Requests
    that name none of `hosts` are refused. `session_id` is what this process is called in the lease.
    """

    db: Database
    codec: PropertyCodec
    gateway: Gateway
    health: Callable[[], Mapping[str, tuple[bool, str]]]
    metrics: Callable[[str], tuple[str, bytes]]
    version: str
    feed: LiveFeed
    look_at: Callable[[Sequence[str]], Sight] = see_nothing
    policies: Callable[[], InForce] = have_none
    read_policies: Callable[[object], PolicySet] = refuse_policies
    session_id: str = ""
    hosts: Hosts = field(default_factory=Hosts)
    cache: AnswerCache = field(default_factory=AnswerCache)
    reads: Places = field(default_factory=Places)
    acts: Places = field(default_factory=Places)
    simulating: Lock = field(default_factory=Lock)
    _watchers: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(_WATCHERS))

    async def watch(self, look: Callable[[], T]) -> T:
        """Run a look at health or metrics, in a thread that other requests cannot take."""
        return await to_thread.run_sync(look, limiter=self._watchers)


async def _of(request: Request) -> ApiParts:
    parts: ApiParts = request.app.state.parts
    return parts


Parts = Annotated[ApiParts, Depends(_of)]
