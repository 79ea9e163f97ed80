"""The search box of the bar: straight to the one thing that is named, else to messages with a text."""

from collections.abc import Mapping
from urllib.parse import urlencode

from fastapi import APIRouter, Response

from retrier.domain.classifiers import CLASSIFIERS
from retrier.http.views import SLUGS
from retrier.store.search import NamedKind, find_named
from retrier.web.counts import Snapshot
from retrier.web.page import see_other
from retrier.web.parts import Parts

_PLACES: Mapping[NamedKind, str] = {
    NamedKind.MESSAGE: "/messages/",
    NamedKind.OPERATION: "/operations/",
    NamedKind.ARCHIVE: "/archive_operations/",
    NamedKind.GROUP: "/messages?group=",
    NamedKind.IMPORT: "/imports/",
}

router = APIRouter(prefix="/search")


@router.get("")
def search(parts: Parts, q: str = "") -> Response:
    """Lead to what is named; to the messages that have the text where that is not one thing."""
    wanted = q.strip()
    if not wanted:
        return see_other("/messages")
    found = find_named(parts.db, wanted)
    if len(found) == 1:
        return see_other(f"{_PLACES[found[0].kind]}{found[0].key}")
    places = [] if found else _by_name(parts.counts.snapshot(), wanted)
    return see_other(places[0] if len(places) == 1 else f"/messages?{urlencode({'text': wanted})}")


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
