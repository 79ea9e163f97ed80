"""Builds the page out of its routes, one module per noun; and the pages of errors."""

from collections.abc import AsyncIterator, Mapping
from functools import cache
from http import HTTPStatus
from types import MappingProxyType

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.selection import Selection
from retrier.http import problems
from retrier.http.access import NOBODY_THERE, find_access
from retrier.http.parts import READING
from retrier.http.problems import RETRY_AFTER, Problem
from retrier.store.message_lists import Order, PageRequest, list_messages
from retrier.web import (
    approvals,
    archives,
    breakers,
    edits,
    events,
    groups,
    imports,
    live_values,
    login,
    message,
    messages,
    operations,
    overview,
    pending,
    policies,
    previews,
    processor,
    redirects,
    search,
    streams,
    tokens,
    views,
)
from retrier.web.counts import PageCounts
from retrier.web.forms import read_form
from retrier.web.page import (
    HEADERS,
    environment,
    live_version,
    person_router,
    refuse_repeated,
    show,
    static_router,
)
from retrier.web.parts import PageParts
from retrier.web.wording import duration, noun, plural, sentence

_FIRST = ("overview.html", "messages.html", "message.html")
"""Templates that most people see first; each is compiled once, with all that it imports."""
_ONE = PageRequest(size=1)


def warm_up(parts: PageParts) -> None:
    """Compile templates and the statement of a list: 100 ms and more."""
    for name in _FIRST:
        environment().get_template(name)
    unresolved = Selection(statuses=frozenset({FailedMessageStatus.UNRESOLVED}))
    list_messages(parts.db, unresolved, Order(), _ONE, parts.codec)


_TITLES: Mapping[int, str] = MappingProxyType(
    {
        400: "This cannot be asked",
        403: "This is not allowed",
        404: "There is nothing here",
        405: "This cannot be done here",
        409: "This cannot be done now",
        413: "This is too much at once",
        421: "This host is not known",
        422: "This cannot be understood",
        429: "This is too often",
        500: "Something went wrong",
        503: "No answer is possible now",
    }
)
_ADVICE: Mapping[int, str] = MappingProxyType(
    {
        400: "Go back, correct it, and try again.",
        403: "Ask whoever runs Retrier for the right to do this, or open this page anew.",
        404: "It may have been deleted for its age, or the address is cut off.",
        405: "Go to the overview and begin there.",
        409: "Look at its state now, and decide again.",
        429: "Wait a second, and try again.",
        413: "Ask for less at once: select by a condition instead of many ids.",
        421: "Open this page as localhost, or list the host in api.allowed_hosts of the settings.",
        500: "The log of the service says more. Nothing was done by halves.",
        503: "This page tries again by itself. What was asked for before is stored, and goes on.",
    }
)


def add_handlers(page: FastAPI) -> None:
    """Turn every error of the page into a page."""
    problems.add_handlers(page, _show_problem)
    page.add_exception_handler(RequestValidationError, _misshapen)


def _show_problem(request: Request, found: Problem) -> Response:
    parts: PageParts = request.app.state.parts
    status, away = found.status, found.status == HTTPStatus.SERVICE_UNAVAILABLE
    if status == HTTPStatus.UNAUTHORIZED:
        return login.ask_to_log_in(request, "" if found.detail == NOBODY_THERE else found.detail)
    answer = show(
        request,
        "error.html",
        status=status,
        code=status,
        title=_TITLES.get(status, HTTPStatus(status).phrase),
        text=sentence(found.detail),
        advice=found.advice or _ADVICE.get(status, _ADVICE[400]),
        again=RETRY_AFTER if away and request.method == "GET" else None,
        last=_last_state(parts.counts) if away else None,
    )
    if away:
        answer.headers["Retry-After"] = str(RETRY_AFTER)
    answer.headers.update(found.headers)
    return answer


def show_refusal(found: Problem) -> Response:
    """Return the page for a request that is refused before anything is read.

    It tells nothing of the service: whoever asks under a foreign host may be a page of a stranger.
    """
    status = found.status
    text = (
        environment()
        .get_template("refused.html")
        .render(
            code=status,
            title=_TITLES[status],
            text=found.detail,
            advice=_ADVICE[status],
        )
    )
    return Response(text.encode(), status, HEADERS, "text/html; charset=utf-8")


def _last_state(counts: PageCounts) -> str | None:
    if counts.last is None:
        return None
    count = counts.last.unresolved
    return f"{plural(count, 'message')} {noun(count, 'was', 'were')} unresolved {duration(counts.age())} ago."


def _misshapen(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    fields = ", ".join(str(each["loc"][-1]) for each in error.errors())
    detail = f"The address has a value that is not allowed: {fields}."
    return _show_problem(request, Problem(status=400, detail=detail))


FREE = (static_router,)
"""Routes that answer everybody, and use no database."""

LIVE = (live_values.router,)
"""Routes that do not end, and use no database."""

WORKING = (
    overview.router,
    groups.router,
    groups.comments_router,
    messages.router,
    message.router,
    edits.router,
    archives.router,
    approvals.router,
    operations.router,
    archives.archived_router,
    pending.router,
    events.history_router,
    events.router,
    processor.router,
    imports.router,
    policies.router,
    redirects.router,
    breakers.router,
    streams.router,
    views.router,
    tokens.router,
    previews.router,
    search.router,
    person_router,
)
"""Routes that use the database, each with a place. Of two that match, the first one answers."""


@cache
def routes_of_page(*, logs_in: bool) -> tuple[BaseRoute, ...]:
    """Return the routes without additions; the same ones for all applications of a process.

    FastAPI examines each at length when the first request comes. What they work with they find in
    the application that is asked.
    """
    together = APIRouter()
    for router in FREE:
        together.include_router(router)
    if logs_in:
        together.include_router(login.router)
    known = Depends(find_access)
    for router in LIVE:
        together.include_router(router, dependencies=[known])
    for router in WORKING:
        together.include_router(router, dependencies=_BEFORE_WORK)
    return tuple(together.routes)


def create_page(parts: PageParts) -> FastAPI:
    """Return the ASGI application. It opens nothing and starts nothing."""
    page = FastAPI(
        title="Retrier", redirect_slashes=False, openapi_url=None, docs_url=None, redoc_url=None
    )
    page.state.parts = parts
    add_handlers(page)
    logs_in = parts.gate.rules is not None
    if logs_in:
        page.state.doorkeeper = login.Doorkeeper()
    page.router.routes.extend(routes_of_page(logs_in=logs_in))
    additions = [each.router for each in parts.additions]
    for router in additions:
        page.include_router(router, dependencies=_BEFORE_WORK)
    page.state.routes = [
        route
        for router in (*WORKING, *additions)
        for route in router.routes
        if isinstance(route, APIRoute)
    ]
    return page


async def _take_place(request: Request) -> AsyncIterator[None]:
    parts: PageParts = request.app.state.parts
    async with parts.places_for(request.method).taken():
        # Before anything is read: a page may show what was read before the newest texts were sent,
        # and would never hear of them if it claimed to know these.
        request.state.live = live_version(parts)
        yield
    if request.method not in READING:
        parts.counts.note_change()


# A form is read before the place is taken, and scope "function" frees it before the answer is sent:
# a slow client holds none.
_BEFORE_WORK = (
    Depends(find_access),
    Depends(refuse_repeated),
    Depends(read_form),
    Depends(_take_place, scope="function"),
)
