"""Web pages of other origins: which of them may ask, and what a browser is told of it (CORS).

A browser lets a page of another origin read an answer only if the answer names that origin, and
asks before it sends what changes something. Origins that the settings do not list are told nothing.
"""

from collections.abc import Set as AbstractSet
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import Message, Send

from retrier.api.answers import HEADERS
from retrier.domain.hosts import Origin, parse_origin

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_EXPOSED = (
    "ETag, Last-Modified, Link, Location, Next-After, Retry-After, Total-Count, "
    "X-Particular-Version, X-Particular-Reason, X-Retrier-Searched, Content-Disposition"
)
_ACCEPTED = (
    "Origin, X-Requested-With, Content-Type, Accept, Authorization, If-None-Match, "
    "Idempotency-Key, Last-Event-ID, X-Retrier-User"
)
_SECONDS = "600"
"""How long a browser may remember what it was told."""
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


def telling(send: Send, origin: str | None) -> Send:
    """Return a `send` that adds to an answer what its browser has to know.

    Each answer says that it depends on the origin, so that no cache gives it to another page.
    """

    async def send_told(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.add_vary_header("Origin")
            if origin is not None:
                headers["Access-Control-Allow-Origin"] = origin
                headers["Access-Control-Expose-Headers"] = _EXPOSED
        await send(message)

    return send_told


def preflight() -> Response:
    """Answer a browser that asks, for a page of a listed origin, what it may send."""
    own = {
        **HEADERS,
        "Access-Control-Allow-Methods": ", ".join(METHODS),
        "Access-Control-Allow-Headers": _ACCEPTED,
        "Access-Control-Max-Age": _SECONDS,
    }
    return Response(status_code=204, headers=own)
