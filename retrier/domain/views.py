"""Saved views: a list of the page with its conditions, under a name that can be sent to somebody."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from urllib.parse import parse_qsl, urlencode

from retrier.domain.fields import PREFIX
from retrier.domain.selection import is_of_content
from retrier.domain.text import clean
from retrier.domain.values import dataclass

LONGEST_NAME = 60
"""Characters."""
LONGEST_QUERY = 4000
"""Characters of the conditions as they stand in an address."""
MOST_VIEWS = 200
"""Views that are kept: people read their list."""


class ViewList(StrEnum):
    """The lists of which a view can be saved."""

    MESSAGES = "messages"
    GROUPS = "groups"
    EVENTS = "events"
    ARCHIVED = "archived"
    PENDING = "pending"


_ORDER = frozenset({"sort", "direction"})
CONDITIONS: Mapping[ViewList, frozenset[str]] = {
    ViewList.MESSAGES: _ORDER
    | {
        *(
            "status",
            "text",
            "words",
            "group",
            "queue",
            "endpoint",
            "message_type",
            "exception_type",
        ),
        *("reason", "stream", "host", "process", "node", "message_id", "failed_from"),
        *("failed_to", "attempts_at_least", "disposition", "archived_by", "operation", "outcome"),
        "field.*",
        "columns",
    },
    ViewList.GROUPS: _ORDER | {"by", "text", "since"},
    ViewList.EVENTS: frozenset(
        {"kind", "who", "people", "routine", "since", "until", "operation", "message"}
    ),
    ViewList.ARCHIVED: frozenset({"text", "queue", "group", "by"}),
    ViewList.PENDING: frozenset({"queue", "operation", "older"}),
}
"""What a view of each list keeps. A test compares them with the pages. Never a page number."""


class ViewRefusal(StrEnum):
    """Why a view is not saved."""

    NO_NAME = f"a view has a name of 1 to {LONGEST_NAME} characters"
    INVISIBLE = "the name of a view has only characters that can be seen, and plain spaces"
    NO_PART = "the name of a view is a part of its address: it has no slash, and is not . or .."
    NO_LIST = f"a view is one of these lists: {', '.join(ViewList)}"
    TOO_LONG = f"the conditions of a view have at most {LONGEST_QUERY:,} characters"
    TWICE = "a condition stands twice"
    NOTHING = "none of the conditions is one of this list"
    TAKEN = "there is a view of this name: name the version that is to be replaced"
    CHANGED = "the view was changed or deleted meanwhile: look at it again"
    TOO_MANY = f"{MOST_VIEWS} views are saved already: delete one first"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a view shows: a list, and its conditions as they stand in an address."""

    name: str
    page: ViewList
    query: str

    @property
    def path(self) -> str:
        """The address of the list."""
        return f"/{self.page}?{self.query}"

    @property
    def is_of_content(self) -> bool:
        """Whether it finds by what stands in messages: it is for who may read that."""
        return any(is_of_content(key) for key, _ in parse_qsl(self.query))


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedView:
    """A view as stored; `version` is another one whenever it was replaced."""

    view: View
    who: str
    saved_at: datetime
    version: int


def read_view(name: str, page: str, query: str) -> View | ViewRefusal:
    """Return the view that is meant, or why it cannot be saved.

    What is no condition of the list is not kept. The name is refused rather than cut: with another
    one nobody would find it.
    """
    name = name.strip()
    why_not = _why_not_named(name)
    if why_not is not None:
        return why_not
    if page not in list(ViewList):
        return ViewRefusal.NO_LIST
    if len(query) > LONGEST_QUERY:
        return ViewRefusal.TOO_LONG
    given = parse_qsl(query.removeprefix("?"))
    kept = [(key, value) for key, value in given if _is_condition(key, ViewList(page))]
    if len({key for key, _ in kept}) < len(kept):
        return ViewRefusal.TWICE
    if not kept:
        return ViewRefusal.NOTHING
    written = urlencode(kept)
    if len(written) > LONGEST_QUERY or clean(written, LONGEST_QUERY) != written:
        return ViewRefusal.TOO_LONG
    return View(name=name, page=ViewList(page), query=written)


def _is_condition(key: str, page: ViewList) -> bool:
    of_field = page is ViewList.MESSAGES and key.startswith(PREFIX)
    return of_field or key in CONDITIONS[page]


def _why_not_named(name: str) -> ViewRefusal | None:
    if not name or len(name) > LONGEST_NAME:
        return ViewRefusal.NO_NAME
    if not name.isprintable():
        return ViewRefusal.INVISIBLE
    return ViewRefusal.NO_PART if "/" in name or name in (".", "..") else None
