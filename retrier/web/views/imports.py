"""Failed imports: the list, one of them with its bytes shown harmlessly, and the question before."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from retrier.domain.text import jsonable
from retrier.store.queries.imports import ImportDetails, ListedImport
from retrier.web.import_acts import Came
from retrier.web.views.bodies import ShownBody, show_body
from retrier.web.views.pages import Listing

_LONGEST_VALUE = 2_000
MOST_HEADERS = 200


class ImportAct(StrEnum):
    """What can be done with failed imports."""

    AGAIN = "again"
    SEND = "send"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportList:
    """All that the list shows; `queues` are the error queues that it can be narrowed to."""

    listing: Listing[ListedImport]
    queues: Sequence[str]
    error_queue: str
    in_all: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportView:
    """One failed import; `raw` are its properties as they came, if they cannot be read."""

    found: ImportDetails
    headers: Sequence[tuple[str, str]]
    properties: Sequence[tuple[str, str]]
    left_out: int
    body: ShownBody
    raw: ShownBody | None
    only_confirms: bool

    @property
    def listed(self) -> ListedImport:
        """What lists show of it."""
        return self.found.listed


def import_view(found: ImportDetails, *, only_confirms: bool) -> ImportView:
    """Return an import as people see it."""
    listed = found.listed
    headers = _pairs(found.headers)
    return ImportView(
        found=found,
        headers=headers[:MOST_HEADERS],
        properties=_pairs(found.fields),
        left_out=max(0, len(headers) - MOST_HEADERS),
        body=show_body(found.body, listed.body_size),
        raw=show_body(found.raw, listed.properties_size, "hex") if found.unreadable else None,
        only_confirms=only_confirms,
    )


def _pairs(values: Mapping[str, object]) -> list[tuple[str, str]]:
    return [(name, _cut(_text(value))) for name, value in jsonable(values).items()]


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    more = len(text) - _LONGEST_VALUE
    return text if more <= 0 else f"{text[:_LONGEST_VALUE]} … and {more:,} characters more"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportQuestion:
    """The form before an act: how many at once, and how many of them need a word of their own.

    `is_unknown`: they are too many to look whether one is in doubt, or only confirms a retry.
    """

    act: ImportAct
    button: str
    note: str
    error_queue: str | None
    at_once: int
    total: int
    fields: Mapping[str, Sequence[str]]
    back: str
    is_unknown: bool
    in_doubt: int
    only_confirm: int

    @property
    def title(self) -> str:
        """The question."""
        return f"{self.button}?"

    @property
    def is_bounded(self) -> bool:
        """Whether more match than one request takes."""
        return self.at_once < self.total


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """What came of an act, and how many more match."""

    came: Came
    more: int
    back: str
