"""What the page is built from, and the pages that the bar at the top leads to."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from threading import Lock
from typing import Annotated, Self

from fastapi import APIRouter, Depends, Request

from retrier.clock import Clock
from retrier.domain.access import Access
from retrier.domain.values import dataclass
from retrier.errors import RetrierError
from retrier.http.access import find_access
from retrier.http.login import LoginProvider
from retrier.http.parts import MOST_SIGHTS, FaceParts, refuse_policies
from retrier.policy.policy_set import PolicySet
from retrier.store.engine.database import Database
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
    and `read_policies` makes a set of such a text, or raises ConfigurationError. `own_counts` gives
    the counts of a database that shows some queues only. `login` is where people log in, if the
    settings name a provider.
    """

    counts: PageCounts
    live: LivePage
    instance: str
    error_queues: Sequence[str] = ()
    queues: Callable[[], Sequence[QueueState]] = list
    additions: Sequence[Addition] = ()
    policy_text: Callable[[], str] = str
    own_counts: Callable[[Database], PageCounts] | None = None
    read_policies: Callable[[str], PolicySet] = refuse_policies
    login: LoginProvider | None = None

    def of(self, access: Access) -> Self:
        """Return the same for a request of somebody with these rights."""
        # `super()` would look for the class as it was before it had slots.
        bound = FaceParts.of(self, access)
        if access.seen is None or self.own_counts is None:
            return bound
        return replace(bound, counts=self.own_counts(bound.db))


class OwnCounts:
    """Counts for those who see some queues only: made when somebody looks, for no job knows them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: OrderedDict[Database, PageCounts] = OrderedDict()
        self._lock = Lock()

    def of(self, db: Database) -> PageCounts:
        """Return the counts of a database, renewed if it is time to."""
        with self._lock:
            found = self._known.get(db)
            if found is None:
                found = self._known[db] = PageCounts(db, self._clock, lambda _found, _trouble: "")
            self._known.move_to_end(db)
            if len(self._known) > MOST_SIGHTS:
                self._known.popitem(last=False)
        found.note_reader()
        with suppress(RetrierError):  # the counts keep it, and the page tells of it
            found.tick()
        return found


async def _of(request: Request, access: Annotated[Access, Depends(find_access)]) -> PageParts:
    """Return the parts of a request: no handler gets any before it is known who asks."""
    parts: PageParts = request.app.state.parts
    return parts.of(access)


Parts = Annotated[PageParts, Depends(_of)]
