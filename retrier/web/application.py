"""Builds the page out of its routes."""

from collections.abc import AsyncIterator

from fastapi import Depends, FastAPI, Request

from retrier.web.error_pages import add_handlers
from retrier.web.forms import read_form
from retrier.web.parts import PageParts
from retrier.web.routes import FREE, WORKING
from retrier.web.showing import told_version
from retrier.web.strays import refuse_repeated

_READING = frozenset({"GET", "HEAD"})


def create_page(parts: PageParts) -> FastAPI:
    """Return the ASGI application. It opens nothing and starts nothing."""
    page = FastAPI(
        title="Retrier", redirect_slashes=False, openapi_url=None, docs_url=None, redoc_url=None
    )
    page.state.parts = parts
    add_handlers(page)
    for router in FREE:
        page.include_router(router)
    # A form is read before the place is taken, and scope "function" frees it before the answer is
    # sent: a slow client holds none.
    place = Depends(_take_place, scope="function")
    first = [Depends(refuse_repeated), Depends(read_form), place]
    for router in (*WORKING, *(each.router for each in parts.additions)):
        page.include_router(router, dependencies=first)
    return page


async def _take_place(request: Request) -> AsyncIterator[None]:
    parts: PageParts = request.app.state.parts
    reads = request.method in _READING
    async with parts.reads() if reads else parts.acts():
        # Before anything is read: a page may show what was read before the newest texts were told,
        # and would never hear of them if it claimed to know these.
        request.state.live = told_version(parts)
        yield
    if not reads:
        parts.counts.note_change()
