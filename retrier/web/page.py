"""Shows a page: its template in the frame, its headers, what was just done, and who asks."""

import gzip
import mimetypes
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from types import MappingProxyType
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from retrier.domain.access import Access
from retrier.domain.archive_operation import Act, ArchiveOperation, ArchiveOperationState
from retrier.domain.parameters import Stray, find_strays, find_too_long, names_read_by
from retrier.domain.text import COLUMN_BYTES
from retrier.domain.values import dataclass
from retrier.errors import DatabaseUnavailable
from retrier.http.parts import LONGEST_NAME, NOBODY
from retrier.store.archive_lists import find_archive_operation
from retrier.store.engine.database import Database
from retrier.store.operation_lists import find_operation
from retrier.web import locks, wording
from retrier.web.forms import NAME_COOKIE, SentForm, local, name_of, new_key
from retrier.web.parts import (
    ACCESS_LINKS,
    MENUS,
    NAVIGATION,
    NavigationLink,
    NavigationMenu,
    PageParts,
)
from retrier.web.wording import number, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Flash:
    """A sentence; `undo` is where a form takes it back, `link` where more is shown.

    `live` is the key of a text that goes on saying how far it is.
    """

    text: str
    tone: str = "good"
    undo: str | None = None
    link: str | None = None
    live: str | None = None


def find_flash(db: Database, done: str) -> Flash | None:
    """Return what to say about `done`: `retry:ID` or `archive:ID`, or one of the SENTENCES."""
    kind, _, key = done.partition(":")
    try:
        match kind:
            case "retry":
                return _of_retry(db, key)
            case "archive":
                return _of_archive(db, key)
            case _:
                return Flash(text=SENTENCES[done]) if done in SENTENCES else None
    except DatabaseUnavailable:
        return None


SENTENCES = {
    "breaker-closed": "The breaker is closed: its retries go again.",
    "breaker-opened": "The breaker is open: its messages wait until its time is over.",
    "breaker-unseen": "It is set. Nothing was ever sent there, and nothing has failed there: look "
    "whether the name is right.",
    "comment-deleted": "The comment is taken away.",
    "commented": "The comment is kept, for all to see.",
    "dead": "It is dead now: only a person's retry takes it.",
    "dismissed": "It is not shown any more: you have seen that it is over.",
    "paused": "It is paused: what is being sent is finished, and nothing more is begun.",
    "resumed": "It goes on.",
    "approved": "It is approved, and goes as any other from now on.",
    "refused": "It is refused: it is cancelled, and nothing of it is sent.",
    "cancelled": "It is cancelled: what may have been sent already is finished, nothing else is sent.",
    "limited": "Its rate is changed.",
    "logged-out": "You are logged out here. The provider may still know you.",
    "unlimited": "Its rate is lifted: it goes on as fast as possible.",
    "again": "Retries are asked for, in several operations: the newest of this list.",
    "nothing-pending": "Nothing of it was pending any more, so nothing was done.",
    "name": "Your name is shown with whatever you ask for from now on.",
    "nothing": "Nothing was selected, so nothing was done.",
    "unchanged": "Nothing was left that could be changed.",
    "released": "Released: it may be retried before the earlier messages of its stream.",
    "recovery-ended": "The recovery is over: what was sent long ago may be presumed to have succeeded.",
    "redirect-deleted": "The redirect is deleted.",
    "token-revoked": "The token is revoked: within a second nobody is let in with it.",
    "view-deleted": "The view is deleted.",
    "view-saved": "The view is saved: it is under Views, for everybody.",
    "redirect-set": "The redirect is set. It holds for every retry that is sent from now on.",
}
"""What is said about acts that have no operation. Never text of the address: anybody may write one."""


def _of_retry(db: Database, operation_id: str) -> Flash | None:
    found = find_operation(db, operation_id)
    if found is None:
        return None
    shown = found.operation
    waits = " It waits for approval by a second person." if shown.is_asking else ""
    return Flash(
        text=f"Retry of {plural(shown.total, 'message')} asked for.{waits}",
        link=f"/operations/{shown.operation_id}",
        live=f"operation/{shown.operation_id}/text",
    )


def _of_archive(db: Database, operation_id: str) -> Flash | None:
    found = find_archive_operation(db, operation_id)
    if found is None:
        return None
    undo = f"/archive_operations/{found.operation_id}/undo" if found.act is Act.ARCHIVE else None
    open_still = found.state is not ArchiveOperationState.COMPLETED
    return Flash(
        text=_archive_text(found),
        undo=undo,
        tone="good" if found.done or open_still else "wait",
        link=f"/archive_operations/{found.operation_id}" if open_still else None,
        live=f"archive/{found.operation_id}/text" if open_still else None,
    )


def _archive_text(found: ArchiveOperation) -> str:
    words = wording.DONE[found.act]
    if found.state is not ArchiveOperationState.COMPLETED:
        are = "is" if found.total == 1 else "are"
        return f"{plural(found.total, 'message')} {are} being {words}."
    if not found.skipped_because:
        return f"{plural(found.done, 'message')} {words}."
    why = "; ".join(
        f"{number(n)}: {wording.plainly(reason)}" for reason, n in found.skipped_because.items()
    )
    return f"{plural(found.done, 'message')} {words}. Left as they were, {why}."


static_router = APIRouter()

_DIGITS = 12
_HEADERS = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "Vary": "Accept-Encoding",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticFile:
    """One file; `version` is a part of the hash of its content."""

    content: bytes
    compressed: bytes
    media_type: str
    version: str


@cache
def static_files() -> Mapping[str, StaticFile]:
    """Return the files of the page by name."""
    folder = files("retrier.web") / "static"
    return {each.name: _read(each.name, each.read_bytes()) for each in folder.iterdir()}


def static_url(name: str) -> str:
    """Return the address of a file; another content has another address."""
    return f"/static/{name}?v={static_files()[name].version}"


@static_router.get("/static/{name}")
async def get_static(request: Request, name: str) -> Response:
    """Return a file."""
    found = static_files().get(name)
    if found is None:
        raise HTTPException(404, "There is no such file.")
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers = {**_HEADERS, "Content-Encoding": "gzip"}
        return Response(found.compressed, headers=headers, media_type=found.media_type)
    return Response(found.content, headers=_HEADERS, media_type=found.media_type)


def _read(name: str, content: bytes) -> StaticFile:
    media_type = mimetypes.guess_type(name)[0] or "text/plain"
    return StaticFile(
        content=content,
        compressed=gzip.compress(content, mtime=0),
        media_type=media_type,
        version=sha256(content).hexdigest()[:_DIGITS],
    )


@cache
def environment() -> Environment:
    """Return the environment of all templates. Every value is escaped; a missing one is an error."""
    made = Environment(
        loader=PackageLoader("retrier.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = (
        *("number", "plural", "noun", "duration", "iso", "utc", "clock", "ago", "size", "listed"),
        *("capital", "sentence", "plainly", "visible", "breakable", "first_line", "event_tone"),
    )
    made.filters.update({name: getattr(wording, name) for name in names})
    made.globals.update(static_url=static_url, next_words=wording.next_words)
    made.globals.update(lock=locks.lock, why_locked=locks.reasons, why_closed=locks.why_closed)
    return made


_EVERYWHERE = frozenset({"done"})
"""Read by the frame of every page."""
_LISTS = frozenset({"id"})
_ADDRESS = 16 * COLUMN_BYTES
_BOUNDS = {
    "back": _ADDRESS,
    "next": _ADDRESS,
    "kind": 8 * COLUMN_BYTES,
    "query": 8 * COLUMN_BYTES,
    "breaker": 2 * COLUMN_BYTES,
}
"""Bytes of what is longer than a text of a message: addresses, kinds, and a name with its kind."""


def strays_of(request: Request) -> Sequence[Stray]:
    """Return them; none where no page has this address."""
    route = request.scope.get("route")
    if route is None:
        return ()
    known = _EVERYWHERE.union(names_read_by(route.dependant))
    return find_strays((name for name, _ in request.query_params.multi_items()), known, _LISTS)


async def refuse_repeated(request: Request) -> None:
    """Refuse a condition that stands twice, as one of them would be dropped, or that is too long.

    Raises HTTPException.
    """
    for stray in strays_of(request):
        if stray.is_repeated:
            raise HTTPException(400, f"The condition {stray.shown} stands twice in the address.")
    long = find_too_long(request.query_params.multi_items(), _BOUNDS)
    if long is not None:
        most = _BOUNDS.get(long, COLUMN_BYTES)
        raise HTTPException(400, f"The condition {long[:100]} has at most {most:,} bytes.")


async def _refuse_strays(request: Request) -> None:
    for stray in strays_of(request):
        nearest = f"; perhaps {stray.nearest} is meant" if stray.nearest else ""
        raise HTTPException(400, f"Nothing here reads a condition {stray.shown}{nearest}.")


IN_FULL = Depends(_refuse_strays)
"""Goes with what asks about all that match: a condition that is dropped would make it more."""


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
    more by `new_key`. `access` is who asks; None where nobody is asked who they are. Whoever has to
    say so first (`is_stranger`) is shown nothing of what is kept here. `waiting` are the counts of the bar by their keys. `strays` are the conditions of the address that nobody reads.
    """

    path: str
    current: str
    navigation: tuple[NavigationLink, ...]
    menus: tuple[NavigationMenu, ...]
    waiting: Mapping[str, int]
    instance: str
    version: str
    live: str
    now: datetime
    user: str
    key: str
    flash: Flash | None = None
    strays: Sequence[Stray] = ()
    access: Access | None = None
    is_stranger: bool = False


def show(
    request: Request,
    template: str | Template,
    /,
    *,
    current: str = "",
    status: int = 200,
    **values: object,
) -> Response:
    """Return a page: a template with the `values` that it names, inside the frame.

    `current` is the path of the page in the bar at the top.
    """
    frame = _make_frame(request, current)
    with locks.locks_of(request):
        text = environment().get_template(template).render(values, frame=frame, new_key=new_key)
    return respond(request, text, status)


def _make_frame(request: Request, current: str) -> Frame:
    parts: PageParts = request.app.state.parts
    access: Access | None = getattr(request.state, "access", None)
    # Whoever has not said who they are is shown no counts and nothing that was done.
    if access is None and parts.gate.rules is not None:
        return _frame_of_stranger(request, parts)
    parts = parts if access is None else parts.of(access)
    parts.counts.note_reader()
    done, last = request.query_params.get("done", ""), parts.counts.last
    return Frame(
        path=_own_address(request),
        current=current,
        navigation=(*NAVIGATION, *(each.link for each in parts.additions)),
        menus=MENUS if parts.gate.rules is None else (*MENUS[:-1], _with_access(MENUS[-1])),
        waiting={} if last is None else last.waiting,
        instance=parts.instance,
        version=parts.version,
        live=getattr(request.state, "live", live_version(parts)),
        now=parts.counts.now(),
        user=name_of(request),
        key=new_key(),
        flash=find_flash(parts.db, done) if done and request.method == "GET" else None,
        strays=strays_of(request),
        access=None if parts.gate.rules is None else access,
    )


def _frame_of_stranger(request: Request, parts: PageParts) -> Frame:
    done = request.query_params.get("done", "")
    return Frame(
        path=_own_address(request),
        current="",
        navigation=(),
        menus=(),
        waiting={},
        instance="retrier",
        version="",
        live="",
        now=parts.counts.now(),
        user="",
        key="",
        flash=Flash(text=SENTENCES[done]) if done in SENTENCES else None,
        is_stranger=True,
    )


def _with_access(menu: NavigationMenu) -> NavigationMenu:
    """Return the menu about the service with the pages that need access to be configured."""
    return replace(menu, links=(*menu.links, *ACCESS_LINKS))


def live_version(parts: PageParts) -> str:
    """Return the version of the texts that open pages were sent last; empty before the first."""
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


person_router = APIRouter()

_YEAR = 365 * 86_400


@person_router.get("/name")
def get_name(request: Request, back: Annotated[str, Query(alias="next")] = "/") -> Response:
    """Show the form for the name."""
    name = name_of(request)
    return show(request, "name.html", name="" if name == NOBODY else name, back=local(back, "/"))


@person_router.post("/name")
def set_name(form: SentForm) -> Response:
    """Keep the name in a cookie of this browser."""
    answer = see_other(form.next("name"))
    name = quote(form.text("name", LONGEST_NAME))
    answer.set_cookie(NAME_COOKIE, name, max_age=_YEAR, httponly=True, samesite="strict")
    return answer
