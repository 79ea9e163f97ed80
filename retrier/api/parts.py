"""What the API is built from, and how many requests may be at work at the same time."""

from collections.abc import AsyncIterator, Callable
from dataclasses import field
from datetime import timedelta
from typing import Annotated, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Depends, Request

from retrier.api.live import LiveFeed
from retrier.api.middleware import Callers
from retrier.domain.access import Access
from retrier.domain.values import dataclass
from retrier.events.event import Emit, ignore
from retrier.http.access import find_access
from retrier.http.parts import FaceParts, refuse_policies
from retrier.policy.policy_set import PolicySet


async def take_place(request: Request) -> AsyncIterator[None]:
    """Hold a place of the request's kind."""
    parts: ApiParts = request.app.state.parts
    async with parts.places_for(request.method).taken():
        yield


T = TypeVar("T")


_WATCHERS = 40
"""Threads for health and metrics; each is busy for a few seconds at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredLogin:
    """Where clients get a token, and for whom it has to be meant."""

    issuer: str
    client_id: str
    audience: str
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """What clients are told of the settings; `archived_kept` is None for ever.

    `login` is None where there is no provider of log-ins.
    """

    instance: str = "retrier"
    broker: str = "RabbitMQ"
    error_queues: tuple[str, ...] = ("error",)
    log_queue: str | None = None
    log_level: str = "info"
    resolved_kept: timedelta | None = timedelta(days=10)
    archived_kept: timedelta | None = timedelta(days=10)
    login: ConfiguredLogin | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiParts(FaceParts):
    """What the handlers work with beside what the page has, too.

    `read_policies` makes a set of what would be the section `policies` of the settings, or raises
    ConfigurationError. `metrics` takes an Accept header and returns content type and text of a
    scrape. `feed` serves who follows the event log. `configured` is what clients are told of the settings. Requests of others than the `callers` are refused.
    `emit` is told of refused changes.
    """

    metrics: Callable[[str], tuple[str, bytes]]
    feed: LiveFeed
    read_policies: Callable[[object], PolicySet] = refuse_policies
    configured: Configured = field(default_factory=Configured)
    callers: Callers = field(default_factory=Callers)
    emit: Emit = ignore
    _watchers: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(_WATCHERS))

    async def watch(self, look: Callable[[], T]) -> T:
        """Run a look at health or metrics, in a thread that other requests cannot take."""
        return await to_thread.run_sync(look, limiter=self._watchers)


async def _of(request: Request, access: Annotated[Access, Depends(find_access)]) -> ApiParts:
    """Return the parts of a request: no handler gets any before it is known who asks."""
    parts: ApiParts = request.app.state.parts
    return parts.of(access)


async def _of_nobody(request: Request) -> ApiParts:
    parts: ApiParts = request.app.state.parts
    return parts


UnaskedParts = Annotated[ApiParts, Depends(_of_nobody)]
"""The parts for routes that answer everybody, whoever it is: health and metrics."""

Parts = Annotated[ApiParts, Depends(_of)]
