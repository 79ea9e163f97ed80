"""Paging as ServiceControl does it: `page`, `per_page`, Total-Count and Link."""

from collections.abc import Mapping
from typing import Annotated
from urllib.parse import parse_qsl, quote, urlencode

from fastapi import Depends, Query, Request

from retrier.api.answers import TOTAL_COUNT
from retrier.store.queries.pages import PageRequest

LARGEST_PAGE = 500
LAST_PAGE = 10_000_000
"""Beyond this a number would not fit what databases count with."""

_DIGITS = 18


def _page(
    page: Annotated[str, Query(description="from 1 on")] = "",
    per_page: Annotated[str, Query(description=f"50 by default, {LARGEST_PAGE} at most")] = "",
) -> PageRequest:
    return PageRequest(
        number=min(_positive(page, 1), LAST_PAGE), size=min(_positive(per_page, 50), LARGEST_PAGE)
    )


PageQuery = Annotated[PageRequest, Depends(_page)]


def page_headers(request: Request, page: PageRequest, total: int) -> dict[str, str]:
    """Return Total-Count, and Link unless one page holds everything.

    Links are relative to the address of the API, as ServiceControl's are.
    """
    last = -(-total // page.size)
    headers = {TOTAL_COUNT: str(total)}
    if last > 1 and page.number <= last:
        links = _links(page.number, last)
        headers["Link"] = ", ".join(_link(request, links[rel], rel) for rel in links)
    return headers


def _links(number: int, last: int) -> Mapping[str, int]:
    before = {"first": 1, "prev": number - 1} if number > 1 else {}
    after = {"last": last, "next": number + 1} if number < last else {}
    return before | after


def _link(request: Request, number: int, rel: str) -> str:
    path = quote(str(request.scope["path"]).removeprefix("/api/"))
    query = [pair for pair in parse_qsl(request.url.query) if pair[0] != "page"]
    return f'<{path}?{urlencode([*query, ("page", number)])}>; rel="{rel}"'


def _positive(text: str, default: int) -> int:
    """Read a number as ServiceControl does: what is none, or below 1, is the default."""
    number = int(text[:_DIGITS]) if text.isdecimal() else 0
    return number or default
