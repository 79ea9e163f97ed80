"""How the lists of the page read their addresses; so a view is read before it is saved.

What a list refuses nobody can open later: it is refused with the same words when it is saved.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException

from retrier.domain.classifiers import CLASSIFIERS
from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.fields import NoCondition, check_name
from retrier.domain.selection import Selection
from retrier.domain.text import clean
from retrier.domain.views import View, ViewList, ViewRefusal, read_view
from retrier.http.filters import (
    EventQuery,
    FilterQuery,
    fields_among,
    read_events,
    read_fields,
    read_filter,
    read_time,
)
from retrier.http.parts import FaceParts
from retrier.http.problems import WrongField
from retrier.store.message_lists import Sort

ANY_STATUS = "all"
_UNCLEAN = "No message has such a text as {}: it holds NUL, or it is too long."

SLUGS: Mapping[str, str] = dict(
    zip(("exception", "type", "queue", "endpoint"), CLASSIFIERS, strict=True)
)
"""The classifiers as they stand in addresses."""

AGES: Mapping[str, timedelta] = {
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
}
"""How old a retry is at least, as it stands in addresses."""

DIRECTIONS = ("asc", "desc")


class GroupSort(StrEnum):
    """What the groups can be sorted by."""

    LAST = "last"
    FIRST = "first"
    COUNT = "count"
    TITLE = "title"


def choose(text: str, name: str, known: Collection[str]) -> str:
    """Return what an address chooses; empty if it chooses nothing. Raises WrongField."""
    if text and text not in known:
        raise WrongField(f"query.{name}", f"What may be said of {name}: {', '.join(known)}.")
    return text


def check_texts(given: Mapping[str, str]) -> None:
    """Refuse texts that no message has, and that databases do not look for. Raises HTTPException."""
    for name, value in given.items():
        if clean(value) != value:
            raise HTTPException(400, _UNCLEAN.format(name))


def read_columns(text: str, known: Sequence[str]) -> Sequence[str]:
    """Return the declared fields that a list shows as columns, each once. Raises WrongField."""
    names = tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))
    for name in names:
        try:
            check_name(name, known)
        except NoCondition as error:
            raise WrongField("query.columns", str(error)) from None
    return names


def understand(query: FilterQuery) -> Selection:
    """Return the messages that a list with this filter shows. Raises HTTPException."""
    check_texts(query.values)
    if query.status == ANY_STATUS:
        return read_filter(replace(query, status=""))
    found = read_filter(query)
    # Whoever looks for certain messages wants them whatever became of them.
    if query.status or query.message_id or query.archived_by or query.operation:
        return found
    return replace(found, statuses=frozenset({FailedMessageStatus.UNRESOLVED}))


def read_wanted_view(parts: FaceParts, name: str, page: str, query: str) -> View | ViewRefusal:
    """Return the view that is to be saved, or why it cannot be.

    Raises HTTPException with what its list would say of its conditions, DatabaseUnavailable.
    """
    view = read_view(name, page, query)
    if isinstance(view, View):
        _look_at(parts, view.page, dict(parse_qsl(view.query)))
    return view


def _look_at(parts: FaceParts, page: ViewList, given: dict[str, str]) -> None:
    known = parts.field_names
    sort = given.pop("sort", "")
    choose(given.pop("direction", ""), "direction", DIRECTIONS)
    match page:
        case ViewList.MESSAGES:
            choose(sort, "sort", list(Sort))
            read_columns(given.pop("columns", ""), known)
            if given.get("words"):
                parts.must_find_words("query.words")
            understand(FilterQuery.of(given))
            read_fields(fields_among(given.items()), known)
        case ViewList.GROUPS:
            choose(sort, "sort", list(GroupSort))
            choose(given.get("by", ""), "by", SLUGS)
            read_time(given.get("since", "").strip(), "query.since")
            check_texts(given)
        case ViewList.EVENTS:
            read_events(EventQuery(**given), parts.db)
        case ViewList.ARCHIVED:
            check_texts(given)
        case ViewList.PENDING:
            choose(given.get("older", ""), "older", AGES)
            check_texts(given)
