"""Shows a template: the frame of every page, and the headers of every answer."""

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from fastapi import Request, Response
from jinja2 import Template

from retrier.domain.parameters import Stray
from retrier.web.forms import NOBODY, local, name_of, new_key
from retrier.web.navigation import NAVIGATION, Place
from retrier.web.parts import PageParts
from retrier.web.strays import strays_of
from retrier.web.templating import environment
from retrier.web.views.flash import Flash, find_flash

POLICY = (
    "default-src 'self'; base-uri 'none'; object-src 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
"""No script, style, picture or connection of anybody else, and none written into the page."""

HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
        # Not "no-referrer": browsers would then send forms without their origin, and be refused.
        "Referrer-Policy": "same-origin",
        "X-Frame-Options": "DENY",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cache-Control": "no-store",
        "Vary": "Accept-Encoding, HX-Request",
    }
)
_COMPRESSED_FROM = 1400
"""Bytes; a smaller page fits one packet anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What every page shows around its own content.

    `path` is the whole address of the page, without what was just done. `now` is the database's
    time, as far as known. `key` is for the one form of a page that acts; a page with several makes
    more by `new_key`. `strays` are the conditions of the address that nobody reads.
    """

    path: str
    current: str
    navigation: tuple[Place, ...]
    instance: str
    version: str
    live: str
    now: datetime
    user: str
    key: str
    flash: Flash | None = None
    strays: Sequence[Stray] = ()

    @property
    def is_nobody(self) -> bool:
        """Whether the person has not said who asks."""
        return self.user == NOBODY


def show(
    request: Request,
    template: str | Template,
    view: object,
    *,
    current: str = "",
    status: int = 200,
) -> Response:
    """Return a page: a template with what it shows (`view`), inside the frame.

    `current` is the path of the page in the bar at the top.
    """
    text = (
        environment()
        .get_template(template)
        .render(view=view, frame=make_frame(request, current), new_key=new_key)
    )
    return respond(request, text, status)


def make_frame(request: Request, current: str) -> Frame:
    """Return the frame of a page."""
    parts: PageParts = request.app.state.parts
    parts.counts.note_reader()
    done = request.query_params.get("done", "")
    return Frame(
        path=_own_address(request),
        current=current,
        navigation=(*NAVIGATION, *(each.place for each in parts.additions)),
        instance=parts.instance,
        version=parts.version,
        live=getattr(request.state, "live", told_version(parts)),
        now=parts.counts.now(),
        user=name_of(request),
        key=new_key(),
        flash=find_flash(parts.db, done) if done and request.method == "GET" else None,
        strays=strays_of(request),
    )


def told_version(parts: PageParts) -> str:
    """Return the version of the texts that open pages were told last; empty before the first."""
    last = parts.counts.last
    return "" if last is None else last.version


def respond(request: Request, text: str, status: int) -> Response:
    """Return HTML with the headers of every page, compressed if the browser wants it."""
    content, own = text.encode(), dict(HEADERS)
    if "gzip" in request.headers.get("accept-encoding", "") and len(content) > _COMPRESSED_FROM:
        content = gzip.compress(content, 4, mtime=0)
        own["Content-Encoding"] = "gzip"
    return Response(content, status, own, "text/html; charset=utf-8")


def see_other(path: str) -> Response:
    """Return the answer to a form that was carried out: the browser shows a page by GET."""
    return Response(status_code=303, headers={**HEADERS, "Location": path})


def _own_address(request: Request) -> str:
    query = [each for each in request.url.query.split("&") if each and not each.startswith("done=")]
    path = request.url.path
    return local(f"{path}?{'&'.join(query)}" if query else path, "/")
