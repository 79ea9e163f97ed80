"""What the page is built from, and the pages that the bar at the top leads to."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock
from typing import Annotated, Protocol

from fastapi import APIRouter, Depends, Request

from retrier.domain.wire import PropertyCodec
from retrier.errors import ConfigurationError
from retrier.gateway import Gateway
from retrier.policy.policy_set import InForce, PolicySet
from retrier.store.engine.database import Database
from retrier.web.counts import Counts
from retrier.web.live_page import LivePage


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One page of the bar."""

    path: str
    name: str


NAVIGATION = (
    Place(path="/", name="Overview"),
    Place(path="/groups", name="Groups"),
    Place(path="/messages", name="Messages"),
    Place(path="/operations", name="Operations"),
    Place(path="/pending", name="Pending"),
    Place(path="/archived", name="Archived"),
    Place(path="/imports", name="Imports"),
    Place(path="/redirects", name="Redirects"),
    Place(path="/breakers", name="Breakers"),
    Place(path="/streams", name="Streams"),
    Place(path="/policies", name="Policies"),
    Place(path="/events", name="Events"),
    Place(path="/processor", name="Processor"),
)


Places = Callable[[], AbstractAsyncContextManager[None]]
"""Gives a place among the requests at work; raises HTTPException if none is free in time."""


class Sight(Protocol):
    """Which queues the broker does not have; `why_not` says why the look ended early."""

    @property
    def missing(self) -> frozenset[str]:
        """The queues that do not exist."""
        ...

    @property
    def unsure(self) -> Mapping[str, str]:
        """The queues of which it is not known, and why."""
        ...

    @property
    def why_not(self) -> str | None:
        """Why nobody looked."""
        ...


def have_none() -> InForce:
    """Return what is in force where there are no policies."""
    return InForce(
        policies=PolicySet(), is_configured=False, loaded_at=datetime(1970, 1, 1, tzinfo=UTC)
    )


def refuse_policies(_text: str) -> PolicySet:
    """Read no other policies. Raises ConfigurationError."""
    raise ConfigurationError(["the text: it cannot be read here"])


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyParts:
    """What the page of policies works with.

    `in_force` returns the set in force, `text` the section as it stands in the file. `read` makes a
    set of a text, or raises ConfigurationError. One simulation runs at a time (`simulating`).
    """

    in_force: Callable[[], InForce] = have_none
    text: Callable[[], str] = str
    read: Callable[[str], PolicySet] = refuse_policies
    simulating: Lock = field(default_factory=Lock)


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """Pages of somebody else beside ours: their routes, and their place in the bar at the top."""

    place: Place
    router: APIRouter


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """An error queue or the staging queue, as this process saw it last.

    `depth` is how many messages are ready; None if the queue does not exist, or if nobody could
    look (`is_known` is false then). `trouble` is why this process does not consume it.
    """

    name: str
    is_staging: bool
    is_known: bool
    depth: int | None
    is_consumed: bool
    trouble: str | None = None


Health = Mapping[str, tuple[bool, str]]
"""For each part of this process whether it works, and a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageParts:
    """What the handlers work with.

    `db` is for reading. `counts` are kept by a job, `live` tells open pages what changed. `reads`
    and `acts` bound how many requests are at work: they share the bounds of the API. `look_at`
    looks for queues. `health` says how the parts of this process are, `queues` how their queues
    are, and `session_id` is what it is called in the lease.
    """

    db: Database
    codec: PropertyCodec
    gateway: Gateway
    counts: Counts
    live: LivePage
    reads: Places
    acts: Places
    look_at: Callable[[Sequence[str]], Sight]
    version: str
    instance: str
    error_queues: Sequence[str] = ()
    health: Callable[[], Health] = dict
    queues: Callable[[], Sequence[QueueState]] = list
    session_id: str = ""
    additions: Sequence[Addition] = ()
    policies: PolicyParts = field(default_factory=PolicyParts)


async def _of(request: Request) -> PageParts:
    parts: PageParts = request.app.state.parts
    return parts


Parts = Annotated[PageParts, Depends(_of)]
