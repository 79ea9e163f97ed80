"""The server of a process: the API and the page, or health and metrics only."""

from collections.abc import Callable, Mapping
from functools import partial

from starlette.types import ASGIApp

from retrier import __version__
from retrier.api.application import ApiParts, create_api
from retrier.api.live import LiveFeed
from retrier.app.composition import ANSWER_LIMIT, make_gateway
from retrier.app.page import Faces, PageState, make_page
from retrier.app.parts import Parts, make_hosts
from retrier.app.policies import read_policies
from retrier.app.queue_looks import QueueLooks
from retrier.app.server import WebServer
from retrier.errors import ConfigurationError, ServiceUnavailable
from retrier.events.service import HealthNotListening
from retrier.http.parts import AT_WORK
from retrier.settings import Role, name_settings_queues

Health = Callable[[], Mapping[str, tuple[bool, str]]]
"""Returns for each part of the service whether it works, and a reason."""


def make_server(
    parts: Parts, roles: frozenset[Role], health: Health, feed: LiveFeed, page: PageState
) -> WebServer | None:
    """Return the server; without the role `api` it has health and metrics only.

    Without that role a port in use (mostly by another process of this host) is no error: the
    process works without a server, and None is returned. Raises ConfigurationError and
    ServiceUnavailable.
    """
    settings = parts.settings.api
    api = make_faces(parts, health, feed, page if Role.API in roles else None)
    try:
        return WebServer(api, settings.host, settings.port)
    except (ConfigurationError, ServiceUnavailable) as error:
        if Role.API in roles:
            raise
        parts.emit(HealthNotListening(reason=str(error)))
        return None


def make_faces(parts: Parts, health: Health, feed: LiveFeed, page: PageState | None) -> ASGIApp:
    """Return the API, and in front of it the page, if this process has one."""
    api_parts = ApiParts(
        db=parts.db.apart(AT_WORK, ANSWER_LIMIT),
        gateway=make_gateway(parts),
        codec=parts.transport.codec,
        health=health,
        metrics=parts.metrics.expose,
        version=__version__,
        look_at=QueueLooks(parts.transport, parts.clock).look_at,
        feed=feed,
        policies=lambda: parts.policies.in_force,
        read_policies=partial(read_policies, own_queues=name_settings_queues(parts.settings)),
        session_id=parts.session_id,
        hosts=make_hosts(parts.settings.api),
    )
    api = create_api(api_parts, whole=page is not None)
    return api if page is None else Faces(api, make_page(parts, api_parts, page))
