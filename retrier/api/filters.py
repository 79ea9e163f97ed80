"""The query of a list: its page, its order, its filter; and the times that a request may hold."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any, TypedDict
from urllib.parse import parse_qsl, quote, urlencode

from fastapi import Depends, HTTPException, Query, Request
from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from retrier.api.answers import TOTAL_COUNT
from retrier.api.places import BEGINNING, read_place, write_place
from retrier.api.problems import OUT_OF_BOUNDS, WrongField
from retrier.clock import SystemClock
from retrier.domain.selection import (
    NO_DEAD,
    Selection,
    WantedDisposition,
    asks_for_dead,
    find_unknown_status,
    read_statuses,
)
from retrier.domain.text import SHORTEST, IdRange, ids_beginning
from retrier.domain.times import (
    DURATION_PATTERN,
    NoTime,
    TimeOutOfBounds,
    as_sentence,
    last_moment_of,
    read_moment,
)
from retrier.store.queries.ordering import Order, Page, PageRequest, Sort

_RANGE = "A range is two times in ISO 8601: 2026-05-04T00:00:00Z...2026-05-05T00:00:00Z, or 7d...2h"

_TURNED = "It lies before `failed_from`, so that nothing would match."
_NO_COUNT = "It is a whole number."
_NO_DISPOSITION = f"It is one of: {', '.join(WantedDisposition)}."

LARGEST_INTEGER = 2**31 - 1
"""What fits the integers of both databases."""

Range = tuple[datetime, datetime]


def read_range(first: str, last: str, fields: tuple[str, str]) -> Range:
    """Read a range of two times; `fields` name where they came from. Raises WrongField."""
    return _read_end(first, fields[0]), _read_end(last, fields[1], _read_last)


def _read_end(text: str, field: str, read: Callable[[object], datetime] | None = None) -> datetime:
    try:
        return (read or _read)(text)
    except PydanticCustomError as error:
        raise WrongField(field, f"{error.message()} {_RANGE}") from None


def _read(value: object, *, coming: bool = False) -> datetime:
    """Read a time into UTC, by the clock of this machine if it says how long ago.

    The years 1 to 9999 are accepted, as both databases do: .NET clients write year 1 for "since
    ever". A time that leaves this range once it is in UTC is refused. Raises PydanticCustomError.
    """
    text = value if isinstance(value, str) else ""
    try:
        return read_moment(text, SystemClock().now(), coming=coming)
    except NoTime as error:
        kind = OUT_OF_BOUNDS if isinstance(error, TimeOutOfBounds) else "time_shape"
        raise PydanticCustomError(kind, "{words}", {"words": as_sentence(error)}) from None


def _read_last(value: object) -> datetime:
    """Read the end of a range, which is included as far as it is written: its second, or minute."""
    return last_moment_of(_read(value), str(value))


_TIME_SCHEMA = WithJsonSchema(
    {
        "anyOf": [
            {"type": "string", "format": "date-time"},
            {"type": "string", "format": "date"},
            {"type": "string", "pattern": f"^{DURATION_PATTERN}$"},
        ]
    }
)

Moment = Annotated[datetime, BeforeValidator(_read), _TIME_SCHEMA]
"""A time in a body. A text that is no time is answered 422, a time out of bounds 400."""

ComingMoment = Annotated[datetime, BeforeValidator(partial(_read, coming=True)), _TIME_SCHEMA]
"""The same, of something that is to happen: a duration counts forward."""

LastMoment = Annotated[datetime, BeforeValidator(_read_last), _TIME_SCHEMA]
"""The same as the end of a range: with its whole second, minute or day."""


_BEGINNING = f"id_prefix is the beginning of an id: {SHORTEST} to 36 hexadecimal digits and dashes."


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterQuery:
    """The filter in the query of a request; an empty part is no condition."""

    status: Annotated[
        str, Query(description="e.g. unresolved,retryIssued or -archived; or dead")
    ] = ""
    modified: Annotated[str, Query(description="from...to, in ISO 8601, or 7d...2h")] = ""
    queueaddress: Annotated[str, Query(description="the same as queue")] = ""
    queue: str = ""
    endpoint: str = ""
    group: str = ""
    exception_type: str = ""
    message_type: str = ""
    reason: str = ""
    stream: Annotated[str, Query(description="the id of a stream, of whichever queue")] = ""
    host: Annotated[str, Query(description="the machine on which it failed last")] = ""
    process: Annotated[str, Query(description="the process there, as its number")] = ""
    node: Annotated[str, Query(description="the worker's name among those of its application")] = ""
    failed_from: Annotated[str, Query(description="last failed then or later: ISO 8601, or 2h")] = (
        ""
    )
    failed_to: Annotated[str, Query(description="last failed then or before: ISO 8601, or 2h")] = ""
    attempts_at_least: Annotated[str, Query(description="failed so often or more")] = ""
    disposition: Annotated[str, Query(description=f"one of: {', '.join(WantedDisposition)}")] = ""
    text: Annotated[
        str, Query(description="in what each shows: queue, endpoint, types, exception, reason")
    ] = ""
    archived_by: Annotated[str, Query(description="the id of an archive operation")] = ""
    message_id: Annotated[str, Query(description="the id that its sender gave it")] = ""


def _ids(
    id_prefix: Annotated[
        str, Query(description=f"the beginning of the id, {SHORTEST} characters or more")
    ] = "",
) -> IdRange | None:
    if not id_prefix:
        return None
    found = ids_beginning(id_prefix)
    if found is None:
        raise HTTPException(400, _BEGINNING)
    return found


IdsQuery = Annotated[IdRange | None, Depends(_ids)]


def _filter(query: Annotated[FilterQuery, Depends()], ids: IdsQuery) -> Selection:
    if query.queueaddress and query.queue and query.queueaddress != query.queue:
        raise HTTPException(400, "queue and queueaddress are the same, and name two queues here.")
    return Selection(
        group=query.group or None,
        queue=query.queueaddress or query.queue or None,
        endpoint=query.endpoint or None,
        exception_type=query.exception_type or None,
        message_type=query.message_type or None,
        statuses=read_statuses(query.status),
        modified=_range(query.modified),
        id_range=ids,
        reason=query.reason or None,
        stream=query.stream or None,
        host=query.host or None,
        process=query.process or None,
        node=query.node or None,
        **_of_failure(query),
        text=query.text or None,
        archived_by=query.archived_by or None,
        message_id=query.message_id or None,
    )


class _OfFailure(TypedDict):
    failed_from: datetime | None
    failed_to: datetime | None
    attempts_at_least: int | None
    disposition: WantedDisposition | None


def _of_failure(query: FilterQuery) -> _OfFailure:
    first, last = query.failed_from, query.failed_to
    found = _OfFailure(
        failed_from=_read_end(first, "query.failed_from") if first else None,
        failed_to=_read_end(last, "query.failed_to", _read_last) if last else None,
        attempts_at_least=_attempts(query.attempts_at_least),
        disposition=_disposition(query),
    )
    if first and last and _read_last(last) < _read(first):
        raise WrongField("query.failed_to", _TURNED)
    return found


def _attempts(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()):
        raise WrongField("query.attempts_at_least", _NO_COUNT)
    # A larger number would not fit the integers of databases; no message failed so often.
    return min(int(text[:_DIGITS]), LARGEST_INTEGER)


def _disposition(query: FilterQuery) -> WantedDisposition | None:
    text = query.disposition
    if text and text not in list(WantedDisposition):
        raise WrongField("query.disposition", _NO_DISPOSITION)
    dead = asks_for_dead(query.status, text)
    if dead is None:
        raise WrongField("query.status", NO_DEAD)
    if dead:
        return WantedDisposition.DEAD
    why_not = find_unknown_status(query.status)
    if why_not is not None:
        raise WrongField("query.status", why_not)
    return WantedDisposition(text) if text else None


def _order(
    sort: Annotated[str, Query(description=f"one of: {', '.join(Sort)}")] = "",
    direction: Annotated[str, Query(description="asc or desc")] = "",
) -> Order:
    known = Sort(sort) if sort in list(Sort) else Sort.TIME_SENT
    return Order(sort=known, descending=direction != "asc")


Wanted = Annotated[Selection, Depends(_filter)]
OrderQuery = Annotated[Order, Depends(_order)]


def _range(text: str) -> Range | None:
    if not text:
        return None
    first, _, last = text.partition("...")
    return read_range(first, last, ("query.modified", "query.modified"))


LARGEST_PAGE = 500
LAST_PAGE = 10_000_000
"""With a larger number the offset of a page would not fit the integers of databases."""

_DIGITS = 18


def _page(
    page: Annotated[str, Query(description="from 1 on")] = "",
    per_page: Annotated[str, Query(description=f"50 by default, {LARGEST_PAGE} at most")] = "",
) -> PageRequest:
    return PageRequest(
        number=min(_positive(page, 1), LAST_PAGE), size=min(_positive(per_page, 50), LARGEST_PAGE)
    )


PageQuery = Annotated[PageRequest, Depends(_page)]


def _page_of_messages(
    order: OrderQuery,
    page: PageQuery,
    after: Annotated[
        str, Query(description=f"{BEGINNING}, or Next-After of the answer before")
    ] = "",
) -> PageRequest:
    if not after:
        return page
    if page.number > 1:
        raise WrongField("query.page", "A page is named by its number or by `after`, not by both.")
    place = None if after == BEGINNING else read_place(after, order)
    return replace(page, by_place=True, after=place)


MessagesPage = Annotated[PageRequest, Depends(_page_of_messages)]
NEXT_AFTER = "Next-After"


def list_headers(
    request: Request, page: PageRequest, order: Order, found: Page[Any]
) -> dict[str, str]:
    """Return the headers of a list of messages: of one by place, where the next page begins."""
    if not page.by_place:
        return page_headers(request, page, found.total)
    following = {} if found.next is None else {NEXT_AFTER: write_place(found.next, order)}
    return {TOTAL_COUNT: str(found.total), **following}


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
    """Read a number as ServiceControl does: 0, or a text that is no number, is the default."""
    number = int(text[:_DIGITS]) if text.isdecimal() else 0
    return number or default
