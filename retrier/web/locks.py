"""Locks: what who looks may not do is shown disabled on every page, with the reason; never hidden.

Templates ask for each control (`lock`) by the address that it leads to. The table of rights decides,
as it does when that address is asked. Without access nothing is looked up.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from urllib.parse import parse_qs
from zlib import crc32

from fastapi import Request
from fastapi.routing import APIRoute
from markupsafe import Markup, escape

from retrier.domain.access import OPEN, Access, How
from retrier.http.rights import right_for

_FREE = Markup()
_POST = "POST"
_GET = "GET"


class Locks:
    """The locks of one page, for somebody with these rights. `reasons` are those that it shows."""

    def __init__(self, access: Access, routes: Sequence[APIRoute]) -> None:
        self._access = access
        self._routes = routes
        self._found: dict[tuple[str, str], str | None] = {}
        self.reasons: dict[str, str] = {}

    def lock(
        self, href: str, queue: str | None = None, why: str = "", method: str = _POST
    ) -> Markup:
        """Return the attributes of a control that is disabled, by its address; empty if it is not.

        A preview has the right of what it asks before. `queue` is where the message failed that it
        is about, `why` another reason not to. With `method` GET, the right to read the address.
        """
        why_not = self._why_not(href, queue, method) or why
        if not why_not:
            return _FREE
        name = f"why-{crc32(why_not.encode()):08x}"
        self.reasons[name] = why_not
        text = escape(why_not)
        # The title alone would be read by no keyboard, and by few readers.
        return Markup(' disabled data-locked aria-describedby="{}" title="{}"').format(name, text)

    def why_closed(self, path: str) -> str | None:
        """Return why a page may not be read; None if it may."""
        return self._why_not(path, None, _GET)

    def _why_not(self, href: str, queue: str | None, method: str) -> str | None:
        if self._access.how is How.OPEN:
            return None
        path, _, query = href.partition("#")[0].partition("?")
        by_role = self._of_address(path, query, method)
        return by_role if by_role or queue is None else self._access.why_not_on(queue)

    def _of_address(self, path: str, query: str, method: str) -> str | None:
        key = (path, method)
        acts = parse_qs(query).get("act", []) if method == _POST else []
        for each in acts:
            found = self._endpoint(f"{path}/{each}", _POST)
            if found is not None:
                return self._access.why_not(right_for(found, _POST))
        if key not in self._found:
            self._found[key] = self._of_path(path, method)
        return self._found[key]

    def _of_path(self, path: str, method: str) -> str | None:
        for each in dict.fromkeys((method, _GET)):
            endpoint = self._endpoint(path, each)
            if endpoint is not None:
                return self._access.why_not(right_for(endpoint, each))
        return None

    def _endpoint(self, path: str, method: str) -> object | None:
        for route in self._routes:
            if method in (route.methods or ()) and route.path_regex.match(path):
                return route.endpoint
        return None


_NONE = Locks(OPEN, ())
_HERE: ContextVar[Locks] = ContextVar("locks", default=_NONE)


@contextmanager
def locks_of(request: Request) -> Iterator[Locks]:
    """Let the templates that are rendered within ask for the locks of who sent this request."""
    access = getattr(request.state, "access", OPEN)
    made = Locks(access, request.app.state.routes)
    token = _HERE.set(made)
    try:
        yield made
    finally:
        _HERE.reset(token)


def lock(href: str, queue: str | None = None, why: str = "", method: str = _POST) -> Markup:
    """Return the attributes of a control of the page that is being rendered (`Locks.lock`)."""
    return _HERE.get().lock(href, queue, why or "", method)


def why_closed(path: str) -> str | None:
    """Return why a page of the bar at the top may not be read; None if it may.

    It stands beside its link: as a reason of each page it would say nothing about that.
    """
    return _HERE.get().why_closed(path)


def reasons() -> Mapping[str, str]:
    """Return the reasons of the page that is being rendered, by the ids of their elements."""
    return _HERE.get().reasons
