"""Web pages of other origins: what a browser is told of those that may ask (CORS).

A browser lets a page of another origin read an answer only if the answer names that origin, and
asks before it sends what changes something. Origins that the settings do not list are told nothing.
"""

from collections.abc import Sequence

from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import Message, Send

from retrier.api.answers import HEADERS

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_EXPOSED = (
    "ETag, Last-Modified, Link, Location, Next-After, Retry-After, Total-Count, "
    "X-Particular-Version, X-Particular-Reason, X-Retrier-Searched, "
    "X-Retrier-Unpacked, Content-Disposition"
)
_ACCEPTED = (
    "Origin, X-Requested-With, Content-Type, Accept, Authorization, If-None-Match, "
    "Idempotency-Key, Last-Event-ID, X-Retrier-User"
)
_SECONDS = "600"
"""How long a browser may remember what it was told."""


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


def preflight(methods: Sequence[str]) -> Response:
    """Answer a browser that asks, for a page of a listed origin, what it may send.

    An address that is none has no methods. It is not refused: a browser sends GET, HEAD and POST
    all the same, and its page can read the 404, which it could not after a refusal here.
    """
    told = ", ".join(methods)
    own = {
        **HEADERS,
        **({"Allow": told, "Access-Control-Allow-Methods": told} if told else {}),
        "Access-Control-Allow-Headers": _ACCEPTED,
        "Access-Control-Max-Age": _SECONDS,
    }
    return Response(status_code=204, headers=own)
