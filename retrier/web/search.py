"""The search box of the bar: straight to the one thing that is named, else to what is found."""

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from retrier.domain.classifiers import CLASSIFIERS
from retrier.domain.search import By, Way
from retrier.http.views import ANY_STATUS, SLUGS, check_texts
from retrier.store.search import NamedKind, find_named
from retrier.store.words import get_lag
from retrier.web.counts import Snapshot
from retrier.web.page import see_other, show
from retrier.web.parts import Parts

_PLACES: Mapping[NamedKind, str] = {
    NamedKind.MESSAGE: "/messages/",
    NamedKind.OPERATION: "/operations/",
    NamedKind.ARCHIVE: "/archive_operations/",
    NamedKind.GROUP: "/messages?group=",
    NamedKind.IMPORT: "/imports/",
}
MOST_SUGGESTED = 200
"""Suggestions of one kind: a browser shows a few of those that fit."""

router = APIRouter(prefix="/search")


@router.get("")
def search(request: Request, parts: Parts, q: str = "") -> Response:
    """Lead to what is named; to the messages that are found, where there is one way to find them."""
    wanted = q.strip()
    if not wanted:
        return see_other("/messages")
    check_texts({"q": wanted})
    named = find_named(parts.db, wanted)
    if len(named) == 1:
        return see_other(f"{_PLACES[named[0].kind]}{named[0].key}")
    places = [] if named else _by_name(parts.counts.snapshot(), wanted)
    if len(places) == 1:
        return see_other(places[0])
    found = parts.search(wanted)
    if len(found.ways) == 1 and not places and not named:
        return see_other(_list_of(found.ways[0].way))
    lag = get_lag(parts.db) if parts.finds_words else None
    return show(
        request,
        "search.html",
        searched=wanted,
        named=[(each.kind, each.key, f"{_PLACES[each.kind]}{each.key}") for each in named],
        places=places,
        ways=[(each, _NAMES[each.way.by], _list_of(each.way)) for each in found.ways],
        field_names=parts.field_names if parts.shows_content else (),
        undeclared=parts.undeclared_in(wanted),
        full_text=parts.full_text,
        finds_words=parts.finds_words,
        unread=0 if lag is None else lag.waiting + lag.backlog,
    )


@router.get("/suggestions")
def suggest(request: Request, parts: Parts) -> Response:
    """Suggest what can be looked for: queues, types, exceptions and the names of fields."""
    found = parts.counts.snapshot()
    names = parts.field_names if parts.shows_content else ()
    return show(request, "suggestions.html", suggestions=dict.fromkeys(_suggested(found, names)))


def _suggested(found: Snapshot, names: Sequence[str]) -> Iterator[str]:
    yield from (f"{name}=" for name in names)
    yield from [each.key for each in found.queues[:MOST_SUGGESTED]]
    for classifier in (SLUGS["type"], CLASSIFIERS[0]):
        yield from [each.title for each in found.groups.get(classifier, ())[:MOST_SUGGESTED]]


_NAMES: Mapping[By, str] = {
    By.FIELD: "with this value of a field",
    By.WORDS: "with these words in headers, stack trace or body",
    By.BEGINNINGS: "with words that begin so in headers, stack trace or body",
    By.TEXT: "with this in queue, endpoint, type, exception or reason",
}


def _list_of(way: Way) -> str:
    """Return the list of all that are found, whatever became of them."""
    return f"/messages?{urlencode({**way.conditions, 'status': ANY_STATUS})}"


def _by_name(found: Snapshot, wanted: str) -> list[str]:
    """Return where exactly this queue, type or group is, of those that have unresolved messages."""
    places = [
        f"/messages?{urlencode({'queue': each.key})}" for each in found.queues if each.key == wanted
    ]
    places += [
        f"/messages?{urlencode({'message_type': wanted})}"
        for each in found.groups.get(SLUGS["type"], ())
        if each.title == wanted
    ]
    places += [
        f"/messages?{urlencode({'group': each.key})}"
        for each in found.groups.get(CLASSIFIERS[0], ())
        if each.title == wanted
    ]
    return places
