"""The doorway: what happens to every request before it meets a route.

Under /api one trailing slash more or less makes no difference, nor does the case of the names in
a query: clients of ServiceControl rely on both. Bodies are bounded, the host that is asked for is
ours, and a browser may change something only from a page of the same origin.
"""

from urllib.parse import urlsplit

from fastapi import Response
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from retrier.api.hosts import refuse_other_host
from retrier.api.problems import problem
from retrier.domain.hosts import Hosts

LARGEST_BODY = 16 * 1024 * 1024
"""Bytes of a request's body."""

_HARMLESS = frozenset({"GET", "HEAD", "OPTIONS"})
_DIGITS = 18
_TOO_LARGE = f"The body of a request has at most {LARGEST_BODY} bytes."


class Doorway:
    """ASGI middleware around all routes."""

    def __init__(self, app: ASGIApp, hosts: Hosts) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Normalise the request or refuse it, then hand it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif (refusal := self._refusal(scope)) is not None:
            await refusal(scope, receive, send)
        else:
            await self._app(_normalised(scope), _bounded(receive), send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        return refuse_other_host(headers, self._hosts) or _refusal(scope, headers)


def _refusal(scope: Scope, headers: Headers) -> Response | None:
    size = headers.get("content-length", "0")
    if "\0" in scope["path"] or b"%00" in scope["query_string"]:
        return problem(400, "The address has a NUL character, which no text has.")
    if size.isdecimal() and int(size[:_DIGITS]) > LARGEST_BODY:
        return problem(413, _TOO_LARGE)
    if scope["method"] not in _HARMLESS and _is_foreign(headers):
        return problem(403, "A page of another origin may not change anything here.")
    return None


def _is_foreign(headers: Headers) -> bool:
    """Say whether a browser sends this for another site's page; other clients name no origin.

    A POST without a body needs no preflight, so any page could ask for retries. The Host is one
    of ours by now, so a page of the same name is one of ours, too.
    """
    origin = headers.get("origin")
    return origin is not None and _authority(origin) != headers.get("host", "").lower()


def _authority(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _normalised(scope: Scope) -> Scope:
    path: str = scope["path"]
    if path.startswith("/api/"):
        path = path.removesuffix("/")
    return {**scope, "path": path, "query_string": _lower_names(scope["query_string"])}


def _lower_names(query: bytes) -> bytes:
    pairs = (pair.partition(b"=") for pair in query.split(b"&"))
    return b"&".join(name.lower() + equals + value for name, equals, value in pairs)


def _bounded(receive: Receive) -> Receive:
    size = 0

    async def receive_bounded() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > LARGEST_BODY:
            raise HTTPException(413, _TOO_LARGE)
        return message

    return receive_bounded
