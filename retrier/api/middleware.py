"""Refuses unknown hosts, foreign origins, large bodies, and what has two readings, or none.

Of two members with one name the last one wins in JSON, so what was written first would be dropped
in silence: `{"selection": {"queue": "x"}, "selection": {"all": true}}` would mean everything.
"""

import json
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field, replace
from http import HTTPStatus
from urllib.parse import urlsplit

from anyio import to_thread
from fastapi import Request, Response
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from retrier.api.answers import HEADERS, show_problem
from retrier.api.origins import preflight, telling
from retrier.domain.hosts import Hosts, Origin, Proxies, parse_host, parse_origin
from retrier.domain.parameters import Stray, find_strays, find_too_long, names_read_by
from retrier.domain.text import COLUMN_BYTES
from retrier.domain.values import dataclass
from retrier.events.event import Emit
from retrier.events.service import RequestRefused
from retrier.http.access import PEER
from retrier.http.problems import Problem, WrongField

_LONGEST_SHOWN = 100
_MOST_MEMBERS = 1000
"""Nothing here reads more than some dozens; each that nobody reads would be told."""
_QUICK = 64 * 1024
"""Bytes; a larger body is read again in a thread, so that others are answered meanwhile."""


async def refuse_members_that_stand_twice(request: Request) -> None:
    """Refuse a body in JSON in which an object, however deep, has a member twice.

    What is no JSON is refused by whoever reads it, and what nobody reads is not looked at. Raises
    WrongField.
    """
    if getattr(request.scope.get("route"), "body_field", None) is None:
        return
    content = await request.body()
    if len(content) <= _QUICK:
        _look_through(content)
    else:
        await to_thread.run_sync(_look_through, content)


def _look_through(content: bytes) -> None:
    try:
        json.loads(content, object_pairs_hook=_distinct)
    except (ValueError, RecursionError):
        return


def _distinct(members: Sequence[tuple[str, object]]) -> None:
    if len(members) > _MOST_MEMBERS:
        raise WrongField("body", f"An object has at most {_MOST_MEMBERS} members.")
    seen: set[str] = set()
    for name, _ in members:
        if name in seen:
            shown = _shown(name)
            raise WrongField(f"body.{shown}", f"The member {shown} stands twice in one object.")
        seen.add(name)


def _shown(name: str) -> str:
    # Half of a surrogate pair, which JSON may hold, cannot be written into an answer.
    return name[:_LONGEST_SHOWN].encode(errors="backslashreplace").decode()


_ANYWHERE = frozenset(
    ("page", "per_page", "sort", "direction", "instance_id", "include_system_messages")
)
"""ServiceControl's parameters that select nothing: its clients send them to lists of all kinds."""
_FREE_TEXT = "comment"
"""ServicePulse does not encode `&` and `%` in it, so anything may seem to be a parameter."""


_BOUNDS = {"kind": 8 * COLUMN_BYTES, "after": 16 * COLUMN_BYTES}
"""Bytes of a list of kinds, of which there are dozens, and of a place, which holds a text in writing."""


async def refuse_strays(request: Request) -> None:
    """Refuse parameters that nobody reads, that stand twice, or that are too long.

    Raises WrongField.
    """
    known = frozenset(names_read_by(request.scope["route"].dependant))
    if _FREE_TEXT in known:
        return
    given = [each for each in request.query_params.multi_items() if each[0] not in _ANYWHERE]
    for stray in find_strays((name for name, _ in given), known):
        raise WrongField(f"query.{stray.shown}", _why(stray, known))
    long = find_too_long(given, _BOUNDS)
    if long is not None:
        most = _BOUNDS.get(long, COLUMN_BYTES)
        raise WrongField(
            f"query.{long}"[:_LONGEST_SHOWN], f"{long[:_LONGEST_SHOWN]} has at most {most} bytes."
        )


def _why(stray: Stray, known: frozenset[str]) -> str:
    if stray.is_repeated:
        return f"The parameter {stray.shown} stands twice in the address."
    nobody = f"Nothing here reads a parameter {stray.shown}"
    if stray.nearest:
        return f"{nobody}; perhaps {stray.nearest} is meant."
    return f"{nobody}; what is read: {', '.join(sorted(known)) or 'none'}."


LARGEST_BODY = 16 * 1024 * 1024
"""Bytes of a request's body."""

MOST_COMMAS = 250_000
"""In a body in JSON: more than 100,000 ids have; each may stand for an object that has to be made.

Millions of them take seconds to read, in which nothing else is answered.
"""

_HARMLESS = frozenset({"GET", "HEAD", "OPTIONS"})
_DIGITS = 18
_FOREIGN = "A web page of another origin is not allowed to change anything."
_OWN_PAGE = (
    "Ask from a page of this service, or list the origin of the other page in api.allowed_origins "
    "of the settings; behind a proxy see api.trusted_proxies."
)
_TOO_LARGE = f"The body of a request has at most {LARGEST_BODY} bytes."
_TOO_MANY = f"The body of a request in JSON has at most {MOST_COMMAS} commas."


_OWN_SITE = frozenset({"same-origin", "none"})
"""What a browser says of a page of ours, and of an address that a person has typed."""


def listed_origin(headers: Headers, listed: AbstractSet[Origin]) -> str | None:
    """Return the origin that a request names, as it writes it, if the settings list it."""
    named = headers.getlist("origin")
    if len(named) != 1 or parse_origin(named[0]) not in listed:
        return None
    return named[0]


def is_foreign(headers: Headers) -> bool:
    """Say whether a browser sends this for another site's page; other clients name no origin.

    A browser sends a POST without a body without a preflight, so any page could ask for retries.
    The Host was checked before, so an origin with the same host is a page of ours. A browser that
    calls its page `same-origin` knows better than a Host that a proxy has rewritten, and no page
    can make it say so. One that leaves the origin out still says how far away its page is.
    """
    origins, host = headers.getlist("origin"), headers.get("host", "").lower()
    sites = [site.lower() for site in headers.getlist("sec-fetch-site")]
    if origins:
        return sites != ["same-origin"] and any(_authority(each) != host for each in origins)
    return any(site not in _OWN_SITE for site in sites)


def _authority(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Callers:
    """Who may ask: under which hosts, for pages of which other origins, and through which proxies."""

    hosts: Hosts = field(default_factory=Hosts)
    origins: frozenset[Origin] = frozenset()
    proxies: Proxies = field(default_factory=Proxies)

    @property
    def of_page(self) -> "Callers":
        """Who may ask the page: no page of another origin, not even one that may ask the API."""
        return replace(self, origins=frozenset())


class RequestMiddleware:
    """ASGI middleware around all routes. `methods_of` returns the methods that an address has.

    `show` makes an answer of a refusal: the face that stands behind it has its own way.
    """

    def __init__(
        self,
        app: ASGIApp,
        callers: Callers,
        methods_of: Callable[[Scope], Sequence[str]] | None = None,
        show: Callable[[Problem], Response] = show_problem,
    ) -> None:
        self._app = app
        self._callers = callers
        self._methods_of = methods_of
        self._show = show

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Normalise the request or answer it at once, else hand it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        origin = listed_origin(Headers(scope=scope), self._callers.origins)
        if self._callers.origins:
            send = telling(send, origin)
        asked = _normalised(scope)
        answer = self._host_refusal(asked)
        if answer is None:
            asked = as_forwarded(asked, self._callers.proxies)
            answer = self._answer_at_once(asked, is_listed=origin is not None)
        if answer is not None:
            await answer(asked, receive, send)
        else:
            await self._app(asked, _bounded(asked, receive), send)

    def _host_refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        named = [headers.getlist("host")]
        named += ([each] for each in forwarded_hosts(scope, self._callers.proxies))
        refusals = (refuse_other_host(each, self._callers.hosts) for each in named)
        return next((self._show(each) for each in refusals if each is not None), None)

    def _answer_at_once(self, scope: Scope, *, is_listed: bool) -> Response | None:
        headers = Headers(scope=scope)
        refusal = _refusal(scope, headers, is_listed=is_listed)
        if refusal is not None:
            return self._show(refusal)
        if scope["method"] != "OPTIONS" or self._methods_of is None:
            return None
        methods = self._methods_of(scope)
        if is_listed and "access-control-request-method" in headers:
            return preflight(methods)
        if not methods:
            return self._show(Problem(status=404, detail="There is nothing at this address."))
        return Response(status_code=204, headers={**HEADERS, "Allow": ", ".join(methods)})


_SHOWN_ELSEWHERE = frozenset({401, 500})
"""Who guesses has events of its own, and so has an unexpected error."""
_LONGEST_REASON = 500


class TellsRefusals:
    """ASGI middleware that emits each change that was refused, with the reason in the answer.

    ServicePulse shows no reason: it refers to the log. So do scripts that look at the status only.
    """

    def __init__(self, app: ASGIApp, emit: Emit) -> None:
        self._app = app
        self._emit = emit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on; emit after the answer."""
        if scope["type"] != "http" or scope["method"] in _HARMLESS:
            await self._app(scope, receive, send)
            return
        status, answer = 200, b""

        async def send_and_keep(message: Message) -> None:
            nonlocal status, answer
            status = message.get("status", status)
            if status >= HTTPStatus.BAD_REQUEST:
                answer += message.get("body", b"")
            await send(message)

        await self._app(scope, receive, send_and_keep)
        if status >= HTTPStatus.BAD_REQUEST and status not in _SHOWN_ELSEWHERE:
            reason = str(json.loads(answer or b"{}").get("detail", ""))
            self._emit(
                RequestRefused(
                    method=scope["method"],
                    path=scope["path"][:_LONGEST_SHOWN],
                    status=status,
                    reason=reason[:_LONGEST_REASON].rstrip("."),
                )
            )


def forwarded_hosts(scope: Scope, proxies: Proxies) -> Sequence[str]:
    """Return the hosts under which a trusted proxy says that it was asked; none of anybody else."""
    peer = scope.get(PEER) or (scope.get("client") or [""])[0]
    if not proxies.include(peer):
        return ()
    told = ",".join(Headers(scope=scope).getlist("x-forwarded-host"))
    return [each.strip() for each in told.split(",")] if told else ()


def as_forwarded(scope: Scope, proxies: Proxies) -> Scope:
    """Return a request under the host that the client of a trusted proxy named.

    Of several proxies in a row the first one knows it. Both faces compare origins with it, and the
    addresses in answers have it.
    """
    told = forwarded_hosts(scope, proxies)
    if not told:
        return scope
    others = [(name, value) for name, value in scope["headers"] if name != b"host"]
    return {**scope, "headers": [(b"host", told[0].encode("latin-1")), *others]}


def _refusal(scope: Scope, headers: Headers, *, is_listed: bool) -> Problem | None:
    size = headers.get("content-length", "0")
    if "\0" in scope["path"] or b"%00" in scope["query_string"]:
        detail = "The address has a NUL character, which is not allowed."
        return Problem(status=400, detail=detail)
    if size.isdecimal() and int(size[:_DIGITS]) > LARGEST_BODY:
        return Problem(status=413, detail=_TOO_LARGE)
    if scope["method"] not in _HARMLESS and not is_listed and is_foreign(headers):
        return Problem(status=403, detail=_FOREIGN, advice=_OWN_PAGE)
    return None


def _normalised(scope: Scope) -> Scope:
    path: str = scope["path"]
    # A slash that is encoded belongs to an id.
    is_encoded = bytes(scope.get("raw_path") or b"/")[-3:].upper() == b"%2F"
    if path.startswith("/api/") and not is_encoded:
        path = path.removesuffix("/")
    return {**scope, "path": path, "query_string": _lower_names(scope["query_string"])}


def _lower_names(query: bytes) -> bytes:
    pairs = (pair.partition(b"=") for pair in query.split(b"&"))
    return b"&".join(name.lower() + equals + value for name, equals, value in pairs)


def _bounded(scope: Scope, receive: Receive) -> Receive:
    size = commas = 0
    is_json = "json" in Headers(scope=scope).get("content-type", "").lower()

    async def receive_bounded() -> Message:
        nonlocal size, commas
        message = await receive()
        content = message.get("body", b"")
        size += len(content)
        commas += content.count(b",") if is_json else 0
        if size > LARGEST_BODY:
            raise HTTPException(413, _TOO_LARGE)
        if commas > MOST_COMMAS:
            raise HTTPException(413, _TOO_MANY)
        return message

    return receive_bounded


_LONGEST_HOST = 100
_WANTED = "This service is asked as localhost, 127.0.0.1 or [::1], or as one of api.allowed_hosts"


def refuse_other_host(named: list[str], hosts: Hosts) -> Problem | None:
    """Return a 421 unless exactly one host is named, and it is allowed."""
    host = parse_host(named[0]) if len(named) == 1 else None
    if host is not None and hosts.include(host):
        return None
    return Problem(status=421, detail=f"{_WANTED}; this request {_describe(named)}.")


def _describe(named: list[str]) -> str:
    match named:
        case []:
            return "names no host"
        case [one]:
            return f"names the host {one[:_LONGEST_HOST]}"
        case _:
            return "names several hosts"
