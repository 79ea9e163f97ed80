"""What the page is built from, and the pages that the bar at the top leads to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Request

from retrier.domain.access import Access
from retrier.http.access import find_access
from retrier.http.parts import FaceParts, refuse_policies
from retrier.policy.policy_set import PolicySet
from retrier.web.counts import PageCounts
from retrier.web.live_page import LivePage


@dataclass(frozen=True, slots=True, kw_only=True)
class NavigationLink:
    """One page of the bar; `live` is the key of the count that stands beside it."""

    path: str
    name: str
    live: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NavigationMenu:
    """Pages of the bar under one name."""

    name: str
    links: tuple[NavigationLink, ...]
    live: str = ""


NAVIGATION = (
    NavigationLink(path="/", name="Overview"),
    NavigationLink(path="/groups", name="Groups"),
    NavigationLink(path="/messages", name="Messages"),
    NavigationLink(path="/operations", name="Operations"),
)
MENUS = (
    NavigationMenu(
        name="Waiting",
        live="nav/waiting",
        links=(
            NavigationLink(path="/pending", name="Pending", live="nav/pending"),
            NavigationLink(path="/imports", name="Failed imports", live="nav/imports"),
            NavigationLink(path="/breakers", name="Breakers", live="nav/breakers"),
            NavigationLink(path="/streams", name="Streams", live="nav/streams"),
        ),
    ),
    NavigationMenu(
        name="Past",
        links=(
            NavigationLink(path="/archived", name="Archived"),
            NavigationLink(path="/history", name="History"),
            NavigationLink(path="/events", name="Event log"),
        ),
    ),
    NavigationMenu(
        name="Service",
        links=(
            NavigationLink(path="/views", name="Views"),
            NavigationLink(path="/redirects", name="Redirects"),
            NavigationLink(path="/policies", name="Policies"),
            NavigationLink(path="/processor", name="Processor"),
        ),
    ),
)
"""What waits, for a person or for something else; what happened; what is set, and how it goes."""

ACCESS_LINKS = (
    NavigationLink(path="/approvals", name="Approvals"),
    NavigationLink(path="/tokens", name="Tokens"),
)
"""Pages that say nothing as long as nobody is asked who they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """Pages of somebody else beside ours: their routes, and their place in the bar at the top."""

    link: NavigationLink
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PageParts(FaceParts):
    """What the handlers work with beside what the API has, too: the places are those of the API.

    `counts` are kept by a job, `live` tells open pages what changed. `queues` says how the queues
    of this process are. `policy_text` returns the section of the policies as it stands in the file,
    and `read_policies` makes a set of such a text, or raises ConfigurationError.
    """

    counts: PageCounts
    live: LivePage
    instance: str
    error_queues: Sequence[str] = ()
    queues: Callable[[], Sequence[QueueState]] = list
    additions: Sequence[Addition] = ()
    policy_text: Callable[[], str] = str
    read_policies: Callable[[str], PolicySet] = refuse_policies


async def _of(request: Request, access: Annotated[Access, Depends(find_access)]) -> PageParts:
    """Return the parts of a request: no handler gets any before it is known who asks."""
    parts: PageParts = request.app.state.parts
    return parts.of(access)


Parts = Annotated[PageParts, Depends(_of)]
