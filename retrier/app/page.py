"""The operator's page on the port of the API."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from starlette.types import ASGIApp, Receive, Scope, Send

from retrier.api.application import ApiParts
from retrier.api.middleware import RequestMiddleware
from retrier.app.parts import Parts, make_hosts
from retrier.app.policies import read_policy_text
from retrier.settings import name_settings_queues
from retrier.web.application import create_page, warm_up
from retrier.web.counts import Counts
from retrier.web.live_page import LivePage
from retrier.web.live_values import live_values
from retrier.web.parts import Addition, PageParts, QueueState

_COUNT_LIMIT = timedelta(seconds=60)
"""How long one statement of the counts may take."""

_OF_API = ("/api", "/metrics", "/health", "/docs", "/openapi.json")


@dataclass(frozen=True, slots=True)
class PageState:
    """What a job keeps for the page, what tells open pages of it, and pages of somebody else."""

    counts: Counts
    live: LivePage
    queues: Callable[[], Sequence[QueueState]]
    additions: Sequence[Addition] = ()


def make_page_state(
    parts: Parts,
    queues: Callable[[], Sequence[QueueState]],
    additions: Sequence[Addition] = (),
) -> PageState:
    """Return the counts of the page, with a database connection of their own."""
    live = LivePage()
    counts = Counts(
        parts.db.apart(1, _COUNT_LIMIT),
        parts.clock,
        lambda found, trouble: live.publish(live_values(found, trouble)),
    )
    return PageState(counts, live, queues, additions)


def make_page(parts: Parts, api: ApiParts, state: PageState) -> ASGIApp:
    """Return the page. It shares with the API the connections, and how many requests are at work."""
    page_parts = PageParts(
        db=api.db,
        codec=api.codec,
        gateway=api.gateway,
        counts=state.counts,
        live=state.live,
        reads=api.reads,
        acts=api.acts,
        look_at=api.look_at,
        version=api.version,
        instance=parts.settings.instance,
        error_queues=parts.error_queues,
        health=api.health,
        queues=state.queues,
        session_id=api.session_id,
        additions=state.additions,
        simulating=api.simulating,
        policies=api.policies,
        policy_text=parts.policies.text,
        read_policies=partial(read_policy_text, own_queues=name_settings_queues(parts.settings)),
    )
    state.counts.do_before(partial(warm_up, page_parts))
    return RequestMiddleware(create_page(page_parts), make_hosts(parts.settings.api))


class Faces:
    """Hands a request to the API or to the page, by its path."""

    def __init__(self, api: ASGIApp, page: ASGIApp) -> None:
        self._api = api
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand it on; what is no request at all concerns the API."""
        of_api = scope["type"] != "http" or is_of_api(scope["path"])
        await (self._api if of_api else self._page)(scope, receive, send)


def is_of_api(path: str) -> bool:
    """Say whether a path belongs to the API: one of its beginnings, or something below it."""
    return any(path == each or path.startswith(f"{each}/") for each in _OF_API)
