"""What a request says: its page, order and filter, times and durations, ids, and who asks."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Annotated, Any
from urllib.parse import parse_qsl, quote, urlencode

from fastapi import Body, Depends, Header, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from retrier.api.answers import OUT_OF_BOUNDS, TOTAL_COUNT, Answer, accepted
from retrier.api.parts import Parts
from retrier.api.shapes import operations as shapes
from retrier.clock import SystemClock
from retrier.domain.archive_operation import Act, ArchiveRequest
from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.recovery import Recovery
from retrier.domain.retry_operation import AskedAgain, RetryRequest, RetryType
from retrier.domain.selection import (
    Selection,
)
from retrier.domain.text import SHORTEST, IdRange, clean, ids_beginning
from retrier.domain.times import (
    DURATION_PATTERN,
    UNITS,
    NoTime,
    TimeOutOfBounds,
    as_sentence,
    last_moment_of,
    read_duration,
    read_moment,
)
from retrier.domain.values import dataclass
from retrier.gateway import Gateway
from retrier.http.filters import FilterQuery, choice, is_yes, read_filter
from retrier.http.parts import LONGEST_KEY, asked_by
from retrier.http.problems import WrongField
from retrier.store.message_lists import Order, PageRequest, Sort
from retrier.store.operation_requests import CreatedOperation


def _read_duration(value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    try:
        return read_duration(value if isinstance(value, str) else "")
    except NoTime as error:
        raise PydanticCustomError(
            "duration_shape", "{words}", {"words": as_sentence(error)}
        ) from None


def _read_age(value: object) -> object:
    """Read a duration into seconds; what may be a number of seconds is left as it is."""
    is_duration = isinstance(value, str) and not _is_number(value)
    return _read_duration(value).total_seconds() if is_duration else value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def show_duration(duration: timedelta) -> str:
    """Show it in its largest unit that needs no fraction; shorter than that, in milliseconds."""
    whole = round(duration / timedelta(milliseconds=1))
    for unit in ("d", "h", "m", "s"):
        number, rest = divmod(whole, round(UNITS[unit] * 1000))
        if number and not rest:
            return f"{number}{unit}"
    return f"{whole}ms"


Duration = Annotated[
    timedelta,
    BeforeValidator(_read_duration),
    WithJsonSchema({"type": "string", "pattern": f"^{DURATION_PATTERN}$"}),
]


_LONGEST_AGE = 36_500 * 86_400

Age = Annotated[
    float,
    BeforeValidator(_read_age),
    Field(gt=0, le=_LONGEST_AGE, allow_inf_nan=False),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "maximum": _LONGEST_AGE},
                {"type": "string", "pattern": f"^{DURATION_PATTERN}$"},
            ]
        }
    ),
]
"""How long ago, or how long from now: a number of seconds, or `2d`; at most what a setting may say."""


_RANGE = "A range is two times in ISO 8601: 2026-05-04T00:00:00Z...2026-05-05T00:00:00Z, or 7d...2h"

Range = tuple[datetime, datetime]


def read_range(first: str, last: str, fields: tuple[str, str]) -> Range:
    """Read a range of two times; `fields` name where they came from. Raises WrongField."""
    return _read_end(first, fields[0]), _read_end(last, fields[1], _read_last)


def _read_end(text: str, field: str, read: Callable[[object], datetime] | None = None) -> datetime:
    try:
        return (read or _read_moment)(text)
    except PydanticCustomError as error:
        raise WrongField(field, f"{error.message()} {_RANGE}") from None


def _read_moment(value: object, *, coming: bool = False) -> datetime:
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
    return last_moment_of(_read_moment(value), str(value))


_TIME_SCHEMA = WithJsonSchema(
    {
        "anyOf": [
            {"type": "string", "format": "date-time"},
            {"type": "string", "format": "date"},
            {"type": "string", "pattern": f"^{DURATION_PATTERN}$"},
        ]
    }
)

Moment = Annotated[datetime, BeforeValidator(_read_moment), _TIME_SCHEMA]
"""A time in a body. A text that is no time is answered 422, a time out of bounds 400."""

ComingMoment = Annotated[
    datetime, BeforeValidator(partial(_read_moment, coming=True)), _TIME_SCHEMA
]
"""The same, of something that is to happen: a duration counts forward."""

LastMoment = Annotated[datetime, BeforeValidator(_read_last), _TIME_SCHEMA]
"""The same as the end of a range: with its whole second, minute or day."""


_BEGINNING = f"id_prefix is the beginning of an id: {SHORTEST} to 36 hexadecimal digits and dashes."


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery(FilterQuery):
    """The filter of a list; ServiceControl's clients write `queueaddress` and `modified`."""

    modified: Annotated[str, Query(description="from...to, in ISO 8601, or 7d...2h")] = ""
    queueaddress: Annotated[str, Query(description="the same as queue")] = ""


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


def _filter(query: Annotated[ListQuery, Depends()], ids: IdsQuery) -> Selection:
    if query.queueaddress and query.queue and query.queueaddress != query.queue:
        raise HTTPException(400, "queue and queueaddress are the same, and name two queues here.")
    asked = query if query.queue else replace(query, queue=query.queueaddress)
    return replace(read_filter(asked), modified=_range(query.modified), id_range=ids)


DIRECTION = choice(("asc", "desc"))
_ALSO_CALLED = {
    "processed_at": Sort.TIME_OF_FAILURE,
    # A retry that was issued is the last change of a pending one.
    "time_of_retry_request": Sort.MODIFIED,
}
"""What ServiceControl's clients call an order that is another one's here."""


def _order(
    sort: Annotated[str, Query(), choice((*Sort, *_ALSO_CALLED))] = "",
    direction: Annotated[str, Query(), DIRECTION] = "",
) -> Order:
    known = Sort(sort) if sort in list(Sort) else _ALSO_CALLED.get(sort, Sort.TIME_SENT)
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


# What is no number means the usual one, so both are read as texts.
PAGE_SIZE = WithJsonSchema({"type": "integer", "minimum": 1, "maximum": LARGEST_PAGE})
PageNumber = Annotated[
    str, Query(), WithJsonSchema({"type": "integer", "minimum": 1, "maximum": LAST_PAGE})
]
_USUAL_SIZE = 50


def _page(
    page: PageNumber = "",
    per_page: Annotated[str, Query(description=f"{_USUAL_SIZE} by default"), PAGE_SIZE] = "",
) -> PageRequest:
    return read_page(page, per_page, _USUAL_SIZE)


def read_page(page: str, per_page: str, usual: int, largest: int = LARGEST_PAGE) -> PageRequest:
    """Return the page that is asked for, of so many items if nothing is said of it."""
    return PageRequest(
        number=min(_positive(page, 1), LAST_PAGE),
        size=min(_positive(per_page, usual), largest),
    )


PageQuery = Annotated[PageRequest, Depends(_page)]


UNPACKED = "X-Retrier-Unpacked"
"""The header that says how a body was packed, or why it is as it came."""


def _wants_unpacked(
    unpacked: Annotated[
        str, Query(description="yes: without the gzip or deflate around it, 1 MiB at most")
    ] = "",
) -> bool:
    return is_yes(unpacked, "query.unpacked")


UnpackedWanted = Annotated[bool, Depends(_wants_unpacked)]


def page_headers(request: Request, page: PageRequest, total: int) -> dict[str, str]:
    """Return Total-Count, and Link unless one page holds everything.

    Links are relative to the address of the API, as ServiceControl's are.
    """
    last = -(-total // page.size)
    headers = {TOTAL_COUNT: str(total)}
    if last > 1 and page.number <= last:
        links = _links(page.number, last)
        headers["Link"] = ", ".join(link(request, rel, "page", links[rel]) for rel in links)
    return headers


def _links(number: int, last: int) -> Mapping[str, int]:
    before = {"first": 1, "prev": number - 1} if number > 1 else {}
    after = {"last": last, "next": number + 1} if number < last else {}
    return before | after


def link(request: Request, rel: str, name: str, value: str | int) -> str:
    """Return the address of another page of a list, by the parameter that names it."""
    path = quote(str(request.scope["path"]).removeprefix("/api/"))
    query = [pair for pair in parse_qsl(request.url.query) if pair[0] != name]
    return f'<{path}?{urlencode([*query, (name, value)])}>; rel="{rel}"'


def _positive(text: str, default: int) -> int:
    """Read a number as ServiceControl does: 0, or a text that is no number, is the default."""
    number = int(text[:_DIGITS]) if text.isdecimal() else 0
    return number or default


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """Who asks, under which idempotency key, and through which gateway."""

    gateway: Gateway
    requested_by: str
    idempotency_key: str | None

    def retry(
        self, retry_type: RetryType, selection: Selection, originator: str
    ) -> Answer[shapes.AskedRetry]:
        """Ask the gateway; answer 202 with the operation. Raises KeyReused."""
        return self.ask(self.request(retry_type, selection, originator))

    def ask(self, request: RetryRequest) -> Answer[shapes.AskedRetry]:
        """Ask the gateway; answer 202 with the operation. Raises KeyReused."""
        return self.accepted(self.gateway.retry(request))

    def accepted(self, created: CreatedOperation) -> Answer[shapes.AskedRetry]:
        """Answer 202 with an operation that was asked for."""
        return accepted(_asked(created), f"/api/operations/{created.operation_id}")

    def retry_again(
        self, originator: str, unique_ids: tuple[str, ...], selection: Selection | None = None
    ) -> Answer[shapes.AskedAgain]:
        """Ask the gateway; answer 202 with operations. Raises KeyReused."""
        named = Selection(ids=unique_ids)
        request = self.request(RetryType.MULTIPLE_MESSAGES, named, originator)
        again = self.gateway.retry_again(request, selection)
        first = again.operation_ids[:1]
        return accepted(asked_again(again), f"/api/operations/{first[0]}" if first else None)

    def archive_request(
        self, act: Act, selection: Selection, originator: str, why: str | None = None
    ) -> ArchiveRequest:
        """Return a request to archive, unarchive or resolve."""
        return ArchiveRequest(
            act=act,
            selection=selection,
            originator=originator,
            requested_by=self.requested_by,
            why=why,
            idempotency_key=self.idempotency_key,
        )

    def request(self, retry_type: RetryType, selection: Selection, originator: str) -> RetryRequest:
        """Return a request of who asks, under the idempotency key."""
        return RetryRequest(
            retry_type=retry_type,
            selection=selection,
            originator=originator,
            requested_by=self.requested_by,
            idempotency_key=self.idempotency_key,
        )


SHOWN_SKIPPED = 1000
"""So many skipped ids at most are shown in an answer; `skipped` counts them all."""


def _asked(created: CreatedOperation) -> shapes.AskedRetry:
    """Show an operation that was asked for, and which named messages it would skip as they are.

    `dead_left_out` counts the dead messages that it leaves out.
    """
    made: shapes.AskedRetry = {"operation_id": created.operation_id, "total": created.total}
    if created.skipped:
        shown = islice(created.skipped.items(), SHOWN_SKIPPED)
        made["skipped"] = len(created.skipped)
        made["skipped_messages"] = [{"id": key, "reason": why} for key, why in shown]
    if created.dead_left_out:
        made["dead_left_out"] = created.dead_left_out
    if created.is_asking:
        made["waits_for_approval"] = True
    return made


def pending_retries(
    queue: str | None = None,
    modified: tuple[datetime, datetime] | None = None,
    sent_before: datetime | None = None,
) -> Selection:
    """Return the messages of a queue and time whose retry was sent and has no outcome yet."""
    return Selection(
        queue=queue,
        statuses=frozenset({FailedMessageStatus.RETRY_ISSUED}),
        modified=modified,
        pending=True,
        sent_before=sent_before,
    )


def recovered_retries(recovery: Recovery, queue: str | None = None) -> Selection:
    """Return what was sent around the backup and has no outcome; nothing that was sent since."""
    pending = pending_retries(queue, sent_before=recovery.begun_at)
    return replace(pending, sent_since=recovery.sent_from)


def _context(
    request: Request,
    parts: Parts,
    _x_retrier_user: Annotated[
        str, Header(alias="x-retrier-user", description="the name to log")
    ] = "",
    idempotency_key: Annotated[
        str, Header(description="makes repeating safe: the same key, the same operation")
    ] = "",
) -> RequestContext:
    if len(request.headers.getlist("Idempotency-Key")) > 1:
        # One of them would be dropped, and the request be done again under it.
        raise HTTPException(400, "Idempotency-Key stands twice in the request.")
    if len(idempotency_key) > LONGEST_KEY:
        raise HTTPException(400, f"Idempotency-Key has at most {LONGEST_KEY} characters.")
    return RequestContext(
        gateway=parts.gateway,
        requested_by=asked_by(request, parts.access),
        idempotency_key=idempotency_key or None,
    )


InContext = Annotated[RequestContext, Depends(_context)]


MOST_IDS = 100_000
"""Ids that one request may name; for more, use a bulk route or several requests."""

_LONGEST_ID = 1000
_NO_ID = "Every id is a text that is not empty."


def checked(ids: list[Any]) -> tuple[str, ...]:
    """Return the ids. Raises HTTPException if one is no text, empty, too long or not clean."""
    if not all(is_id(each) for each in ids):
        raise HTTPException(400, _NO_ID)
    return tuple(ids)


def checked_shape(ids: list[Any]) -> tuple[str, ...]:
    """Return the ids; an empty one is of the wrong shape. Raises RequestValidationError too.

    ServiceControl answers so where it archives and where it deals with pending retries.
    """
    if any(each in ("", None) for each in ids):
        raise RequestValidationError([{"type": "id", "loc": ("body",), "msg": _NO_ID}])
    return checked(ids)


def _named(ids: Annotated[list[Any], Body(max_length=MOST_IDS)]) -> tuple[str, ...]:
    return checked(ids)


def _well_named(ids: Annotated[list[Any], Body(max_length=MOST_IDS)]) -> tuple[str, ...]:
    return checked_shape(ids)


NamedIds = Annotated[tuple[str, ...], Depends(_named)]
WellNamedIds = Annotated[tuple[str, ...], Depends(_well_named)]


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("unclean", "It holds NUL.")
    return text


WITHOUT_NUL = AfterValidator(_without_nul)
"""Of a text of a body. PostgreSQL stores no NUL, and SQLite would: so no member may hold one.

It stands behind a bound of the length, which is told as one of characters then.
"""
Line = Annotated[str, WITHOUT_NUL]


def is_id(each: object) -> bool:
    """Say whether it is a text that may be asked for as an id; no message need have it."""
    return isinstance(each, str) and each != "" and clean(each, _LONGEST_ID) == each


def asked_again(again: AskedAgain) -> shapes.AskedAgain:
    """Show the operations; `operation_id` is the first one, as in the answer to any retry."""
    made: shapes.AskedAgain = {"total": again.total, "operations": list(again.operation_ids)}
    if again.is_asking:
        made["waits_for_approval"] = True
    return {"operation_id": again.operation_ids[0], **made} if again.operation_ids else made
