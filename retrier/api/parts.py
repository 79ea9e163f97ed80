"""What the API is given when it is built, and how a handler asks for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Depends, Request

from retrier.api.answer_cache import AnswerCache
from retrier.api.places import Places
from retrier.domain.hosts import Hosts
from retrier.domain.wire import PropertyCodec
from retrier.gateway import Gateway
from retrier.store.engine.database import Database

T = TypeVar("T")

_WATCHERS = 40
"""Threads for health and metrics: each waits some seconds at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiParts:
    """What the handlers work with.

    `db` is for reading, and `codec` for the properties of what is read. `health` tells of each part of the service whether it works, and why or
    why not. `metrics` returns the content type and the text of a scrape with this Accept header.
    Requests that name none of `hosts` are refused.
    """

    db: Database
    codec: PropertyCodec
    gateway: Gateway
    health: Callable[[], Mapping[str, tuple[bool, str]]]
    metrics: Callable[[str], tuple[str, bytes]]
    version: str
    hosts: Hosts = field(default_factory=Hosts)
    cache: AnswerCache = field(default_factory=AnswerCache)
    reads: Places = field(default_factory=Places)
    acts: Places = field(default_factory=Places)
    _watchers: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(_WATCHERS))

    async def watch(self, look: Callable[[], T]) -> T:
        """Run what tells of the service, in a thread that no other request can have."""
        return await to_thread.run_sync(look, limiter=self._watchers)


async def _of(request: Request) -> ApiParts:
    parts: ApiParts = request.app.state.parts
    return parts


Parts = Annotated[ApiParts, Depends(_of)]
