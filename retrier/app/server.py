"""The HTTP server of a process: API, page, health and metrics; and the thread that hears of requests."""

import os
import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from errno import EADDRINUSE
from functools import partial

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from retrier import __version__
from retrier.api.application import ApiParts, create_api
from retrier.api.live import LiveFeed
from retrier.api.middleware import RequestMiddleware
from retrier.api.parts import Configured, ConfiguredLogin
from retrier.app.dialects import try_messages
from retrier.app.parts import ANSWER_LIMIT, Parts, make_callers, make_gateway
from retrier.app.policies import read_policies, read_policy_text
from retrier.app.queue_looks import QueueLooks
from retrier.domain.fields import names_of
from retrier.domain.values import dataclass
from retrier.errors import ConfigurationError, DatabaseUnavailable, ServiceUnavailable
from retrier.events.service import HealthNotListening, RequestsHeard, RequestsUnheard
from retrier.http.access import PEER, Gate, GuessLimit
from retrier.http.parts import AT_WORK, Sights
from retrier.settings import ApiTls, Role, Settings, name_settings_queues
from retrier.store.engine.requests import Listener, Unheard, listen_for_requests
from retrier.web.application import create_page, show_refusal, warm_up
from retrier.web.counts import PageCounts
from retrier.web.live_page import LivePage
from retrier.web.live_values import live_values
from retrier.web.parts import Addition, OwnCounts, PageParts, QueueState

_COUNT_LIMIT = timedelta(seconds=60)
"""How long one statement of the counts may take."""

_OF_API = ("/api", "/metrics", "/health", "/docs", "/openapi.json")


@dataclass(frozen=True, slots=True)
class PageState:
    """What a job keeps for the page, what tells open pages of it, and pages of somebody else."""

    counts: PageCounts
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
    counts = PageCounts(
        parts.db.apart(1, _COUNT_LIMIT),
        parts.clock,
        lambda found, trouble: live.publish(live_values(found, trouble)),
    )
    return PageState(counts, live, queues, additions)


def make_page(parts: Parts, api: ApiParts, state: PageState) -> ASGIApp:
    """Return the page. It shares with the API the connections, and how many requests are at work."""
    page_parts = PageParts(
        db=api.db,
        sights=api.sights,
        own_counts=OwnCounts(parts.clock).of,
        codec=api.codec,
        gateway=api.gateway,
        counts=state.counts,
        live=state.live,
        reads=api.reads,
        acts=api.acts,
        look_at=api.look_at,
        gate=api.gate,
        try_messages=api.try_messages,
        login=parts.provider,
        version=api.version,
        instance=parts.settings.instance,
        error_queues=parts.error_queues,
        health=api.health,
        queues=state.queues,
        session_id=api.session_id,
        field_names=api.field_names,
        full_text=api.full_text,
        additions=state.additions,
        simulating=api.simulating,
        policies=api.policies,
        policy_text=parts.policies.text,
        read_policies=partial(read_policy_text, own_queues=name_settings_queues(parts.settings)),
    )
    state.counts.do_before(partial(warm_up, page_parts))
    page = create_page(page_parts)
    return RequestMiddleware(page, api.callers.of_page, show=show_refusal)


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


_LOOPBACK = "127.0.0.1"
"""Whatever listens there may always say, by X-Forwarded-For, who its client is."""


class Peers:
    """Notes where a connection came from, before the word of a proxy takes the place of it."""

    def __init__(self, app: ASGIApp, proxies: Sequence[str]) -> None:
        self._app = ProxyHeadersMiddleware(app, [_LOOPBACK, *proxies])  # type: ignore[arg-type]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand it on with that address."""
        peer = scope.get("client")
        noted = {**scope, PEER: peer[0] if peer else ""}
        await self._app(noted, receive, send)  # type: ignore[arg-type]


_BACKLOG = 128
_WHAT_TO_DO = "end what listens there, or name another port: --port, or api.port in the settings"
_GRACE = 3
"""Seconds for which a request may go on after the stop."""


class WebServer:
    """Listens from the start, so that /health/ready can show what is still missing."""

    def __init__(
        self, api: ASGIApp, host: str, port: int, tls: ApiTls | None = None, key: str = "api.port"
    ) -> None:
        self._socket = _listen(host, port, key)
        self._tls = tls if tls is not None and tls.certificate else None
        config = uvicorn.Config(
            api,
            log_config=None,
            proxy_headers=False,  # `Peers` does that
            # Uvicorn warns of each request that is no HTTP: a port scan would fill the log.
            log_level="error",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=_GRACE,
            ssl_certfile=self._tls.certificate if self._tls else None,
            ssl_keyfile=(self._tls.key or None) if self._tls else None,
        )
        self._config = config
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="api", daemon=True
        )

    @property
    def address(self) -> tuple[str, int]:
        """Host and port where it listens; if port 0 was configured, the port that was chosen."""
        host, port = self._socket.getsockname()[:2]
        return host, port

    def start(self) -> None:
        """Start serving."""
        self._thread.start()

    @property
    def scheme(self) -> str:
        """What its addresses begin with."""
        return "https" if self._tls else "http"

    def renew_certificate(self) -> str | None:
        """Read the certificate and its key again, for connections from now on; return why not, or None.

        The old one goes on if the new one cannot be used.
        """
        if self._tls is None or self._config.ssl is None:
            return None
        try:
            # Tried apart: a certificate without its key would leave the context in use without both.
            trial = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            for context in (trial, self._config.ssl):
                context.load_cert_chain(self._tls.certificate, self._tls.key or None)
        except OSError as error:
            return f"{self._tls.certificate}: {error.strerror or error}"
        return None

    def begin_to_stop(self) -> None:
        """Accept no more requests, and finish those in progress."""
        self._server.should_exit = True

    def stop(self, timeout: float) -> None:
        """Wait `timeout` seconds for the last answers, then close."""
        self.begin_to_stop()
        self._thread.join(timeout)
        self._socket.close()


def _listen(host: str, port: int, key: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        problem = f"cannot listen on {host} port {port}: {_reason(error)}"
        if error.errno == EADDRINUSE:
            # Whoever has it may give it back: a supervisor has to start this process again.
            raise ServiceUnavailable(f"{problem}; {_WHAT_TO_DO}") from error
        raise ConfigurationError([f"{key}: {problem}"]) from error
    # Connections inherit TCP_NODELAY. An answer is written in two pieces, head and content. Without
    # the option the second waits until the client acknowledges the first, which takes 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _reason(error: OSError) -> str:
    # Python adds the address to the words of the system, which name it twice then.
    return os.strerror(error.errno) if error.errno else str(error)


_PAUSE = 5.0
_PAUSE_UNHEARD = 60.0
"""Seconds between two tries behind a pooler: it may be set up otherwise meanwhile."""


class Listening:
    """Hears of requests on PostgreSQL, in a thread. The job `requests` finds those it misses."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._is_said = False
        self.hears = False
        """Whether it is proved that notifications arrive, as long as the connection lasts."""

    def run(self) -> None:
        """Listen until the stop; connect again after each loss."""
        listener = Listener(request=self._wake, proved=self._prove)
        while not self._parts.stop.is_set():
            pause = _PAUSE
            try:
                listen_for_requests(self._parts.db, self._parts.stop, listener)
            except Unheard as error:
                pause = _PAUSE_UNHEARD
                self._log_unheard(error)
            except DatabaseUnavailable:
                # Not reported: the parts that need the database do so.
                pass
            finally:
                self.hears = False
            self._parts.stop.wait(pause)

    def _wake(self) -> None:
        self._parts.wake.set()
        self._parts.wake_archiving.set()

    def _prove(self) -> None:
        self.hears = True
        if self._is_said:
            self._parts.emit(RequestsHeard())
        self._is_said = False

    def _log_unheard(self, error: Unheard) -> None:
        if not self._is_said:
            self._parts.emit(RequestsUnheard(reason=str(error)))
        self._is_said = True


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
    peers = Peers(api, settings.trusted_proxies)
    try:
        return WebServer(peers, settings.host, settings.port, settings.tls)
    except (ConfigurationError, ServiceUnavailable) as error:
        if Role.API in roles:
            raise
        parts.emit(HealthNotListening(reason=str(error)))
        return None


def make_health_server(parts: Parts, health: Health, feed: LiveFeed) -> WebServer | None:
    """Return the server of health and metrics alone, open to whoever reaches it; None without a port.

    Raises ConfigurationError, ServiceUnavailable.
    """
    settings = parts.settings.api
    if settings.health_port is None:
        return None
    api = create_api(replace(_api_parts(parts, health, feed), gate=Gate()), whole=False)
    return WebServer(api, settings.host, settings.health_port, key="api.health_port")


def make_faces(parts: Parts, health: Health, feed: LiveFeed, page: PageState | None) -> ASGIApp:
    """Return the API, and in front of it the page, if this process has one."""
    api_parts = _api_parts(parts, health, feed)
    api = create_api(api_parts, whole=page is not None)
    faces = api if page is None else Faces(api, make_page(parts, api_parts, page))
    return faces if api_parts.gate.rules is None else GuessLimit(faces, api_parts.gate)


def _api_parts(parts: Parts, health: Health, feed: LiveFeed) -> ApiParts:
    db = parts.db.apart(AT_WORK, ANSWER_LIMIT)
    return ApiParts(
        db=db,
        sights=Sights(db),
        gateway=make_gateway(parts),
        codec=parts.transport.codec,
        health=health,
        metrics=parts.metrics.expose,
        version=__version__,
        look_at=QueueLooks(parts.transport, parts.clock).look_at,
        try_messages=partial(try_messages, parts.settings),
        feed=feed,
        policies=lambda: parts.policies.in_force,
        read_policies=partial(read_policies, own_queues=name_settings_queues(parts.settings)),
        session_id=parts.session_id,
        field_names=names_of(parts.settings.search.declared),
        full_text=parts.settings.search.text.enabled,
        gate=make_gate(parts),
        configured=_configured(parts),
        callers=make_callers(parts.settings.api),
        emit=parts.emit,
    )


def make_gate(parts: Parts) -> Gate:
    """Return what finds out who asks, with database connections of its own."""
    access = parts.settings.access
    if access is None:
        return Gate()
    return Gate(
        parts.db.apart(AT_WORK, ANSWER_LIMIT),
        access.rules,
        bearer=parts.provider,
        seal="" if parts.provider is None else parts.provider.seal,
        audit=parts.audit,
        clock=parts.clock,
    )


def _configured(parts: Parts) -> Configured:
    settings = parts.settings
    ingestion, retention = settings.ingestion, settings.retention
    return Configured(
        instance=settings.instance,
        broker=parts.transport.capabilities.broker,
        error_queues=tuple(each.queue for each in ingestion.error_queues),
        log_queue=ingestion.forward_to,
        log_level=settings.log.level,
        resolved_kept=retention.resolved,
        archived_kept=retention.archived,
        login=_configured_login(settings),
    )


def _configured_login(settings: Settings) -> ConfiguredLogin | None:
    if settings.access is None or settings.access.oidc is None:
        return None
    oidc = settings.access.oidc
    return ConfiguredLogin(
        issuer=oidc.issuer,
        client_id=oidc.client_id,
        audience=oidc.audience or oidc.client_id,
        scopes=oidc.scopes,
    )
