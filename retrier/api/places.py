"""Lists that are followed: how a place in one is asked for, read, and written into the answer."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from pydantic import WithJsonSchema

from retrier.api.answers import TOTAL_COUNT
from retrier.api.requests import OrderQuery, PageNumber, PageQuery, link, page_headers, read_page
from retrier.domain.identity import is_guid
from retrier.domain.text import clean
from retrier.domain.values import dataclass
from retrier.http.problems import WrongField
from retrier.store.message_lists import Key, Order, Page, PageRequest, Place, Sort

BEGINNING = "*"
"""Asks for the first page of a list that is followed."""

_WRONG = (
    "It is no place in a list that is sorted like this one: it is `*`, or what Next-After of the "
    "answer before said, with the same sort and direction."
)
NEXT_AFTER = "Next-After"

Read = Callable[[object], Key]
"""Reads a value by which a list is sorted. Raises ValueError or TypeError for what is none."""


def read_text(said: object) -> str:
    """Read a text that a database can hold."""
    if not isinstance(said, str) or clean(said) != said:
        raise TypeError(said)
    return said


def read_id(said: object) -> str:
    """Read an id of ours."""
    if not is_guid(read_text(said)):
        raise TypeError(said)
    return read_text(said)


def read_time(said: object) -> datetime:
    """Read a time into UTC."""
    return datetime.fromisoformat(read_text(said)).astimezone(UTC)


def read_number(said: object) -> int:
    """Read a number that a database can hold."""
    if not isinstance(said, int) or not 0 <= said < _LARGEST:
        raise TypeError(said)
    return said


def _or_none(read: Read) -> Read:
    """Some messages have no value to be sorted by."""
    return lambda said: None if said is None else read(said)


_LARGEST = 2**63
_BY_SORT: Mapping[Sort, Sequence[Read]] = {
    Sort.ID: (read_id, read_number),
    Sort.MESSAGE_ID: (_or_none(read_text), read_number),
    Sort.MESSAGE_TYPE: (_or_none(read_text), read_number),
    Sort.STATUS: (read_text, read_time, read_number),
    Sort.TIME_SENT: (_or_none(read_time), read_number),
    Sort.MODIFIED: (read_time, read_number),
    Sort.TIME_OF_FAILURE: (read_time, read_number),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOrder:
    """What places of a list are made of; in a list of another name or direction they are none."""

    name: str
    descending: bool
    keys: Sequence[Read]

    def write(self, place: Place) -> str:
        """Return a place as a text that clients hand back, and do not read."""
        keys = [each.isoformat() if isinstance(each, datetime) else each for each in place.keys]
        said = json.dumps([self.name, self.descending, keys, place.total], separators=(",", ":"))
        return urlsafe_b64encode(said.encode()).decode()

    def read(self, text: str) -> Place:
        """Read it again. Raises WrongField if it is none, or one of another list."""
        try:
            name, descending, keys, total = json.loads(urlsafe_b64decode(text.encode()))
            of_this = (name, descending) == (self.name, self.descending)
            read = [read(key) for read, key in zip(self.keys, keys, strict=True)] if of_this else []
            place = Place(keys=tuple(read), total=read_number(total))
        # A client may send anything: what cannot be taken apart, is of other types, or overflows.
        except (ValueError, TypeError, ArithmeticError, RecursionError):
            raise WrongField("query.after", _WRONG) from None
        if not of_this:
            raise WrongField("query.after", _WRONG)
        return place


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """The page of a list that may be followed: by its number, or by the place behind which it is."""

    wanted: PageRequest
    order: ListOrder

    def headers(self, request: Request, found: Page[Any]) -> dict[str, str]:
        """Return the headers of the answer; of a page by place, where the next one begins."""
        if not self.wanted.by_place:
            return page_headers(request, self.wanted, found.total)
        headers = {TOTAL_COUNT: str(found.total)}
        if found.next is not None:
            place = self.order.write(found.next)
            headers |= {NEXT_AFTER: place, "Link": link(request, "next", "after", place)}
        return headers


AfterQuery = Annotated[str, Query(description=f"{BEGINNING}, or {NEXT_AFTER} of the answer before")]


def follow(page: PageRequest, after: str, order: ListOrder) -> Followed:
    """Return the page that is asked for. Raises WrongField."""
    if not after:
        return Followed(wanted=page, order=order)
    if page.number > 1:
        raise WrongField("query.page", "A page is named by its number or by `after`, not by both.")
    place = None if after == BEGINNING else order.read(after)
    return Followed(wanted=replace(page, by_place=True, after=place), order=order)


def followed(name: str, *keys: Read, descending: bool = True) -> Any:
    """Return what reads the page of a list that has one order."""
    order = ListOrder(name=name, descending=descending, keys=keys)

    def read(page: PageQuery, after: AfterQuery = "") -> Followed:
        return follow(page, after, order)

    return Depends(read)


def _of_messages(order: Order) -> ListOrder:
    return ListOrder(name=order.sort, descending=order.descending, keys=_BY_SORT[order.sort])


def _page_of_messages(order: OrderQuery, page: PageQuery, after: AfterQuery = "") -> Followed:
    return follow(page, after, _of_messages(order))


MessagesPage = Annotated[Followed, Depends(_page_of_messages)]

LARGEST_PAGE_OF_IDS = 10_000
_USUAL_IDS = 1000
IdsOnPage = Annotated[
    str,
    Query(description=f"{_USUAL_IDS} by default"),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": LARGEST_PAGE_OF_IDS}),
]


def _page_of_ids(page: PageNumber = "", per_page: IdsOnPage = "") -> PageRequest:
    return read_page(page, per_page, _USUAL_IDS, LARGEST_PAGE_OF_IDS)


PageOfIds = Annotated[PageRequest, Depends(_page_of_ids)]


def _ids_of_messages(order: OrderQuery, page: PageOfIds, after: AfterQuery = "") -> Followed:
    return follow(page, after, _of_messages(order))


IdsPage = Annotated[Followed, Depends(_ids_of_messages)]
