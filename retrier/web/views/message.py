"""One message: why it is in its state, what failed, what changed, its body, its history."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from retrier.domain.archive_operation import (
    Act,
    ClaimStage,
    why_not,
    why_not_declare_dead,
    why_not_revive,
)
from retrier.domain.classifiers import CLASSIFIERS
from retrier.domain.failed_message import Disposition, FailedMessageStatus, FailureGroup
from retrier.store.queries.attempts import ShownAttempt
from retrier.store.queries.details import MessageDetails
from retrier.store.queries.message_history import HistoryLine
from retrier.store.queries.message_marks import MessageMark
from retrier.store.queries.messages import ListedMessage, ShownClaim
from retrier.store.queries.ordering import Page
from retrier.web.views.bodies import Kind, MoreBytes, ShownBody, bytes_shown
from retrier.web.views.differences import Difference, compare, time_of
from retrier.web.views.message_lines import LONGEST_VALUE, LineShown, tell_line
from retrier.web.views.pages import Listing, page_number
from retrier.web.views.states import Sentence, tell_badge, tell_state
from retrier.web.views.streams import Waits

MOST_HEADERS = 200
LINES = 30
"""Lines of the history on one page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """One failure in the list of all, with its number."""

    number: int
    at: datetime
    title: str
    decided: str | None
    host: str | None
    is_compared: bool
    compare: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """One header; `more` is how many characters of it are not shown."""

    name: str
    value: str
    more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageQuery:
    """What an address says of the page of a message."""

    body: str = ""
    compare: str = ""
    history: str = ""

    @property
    def number(self) -> int:
        """The page of the history."""
        return page_number(self.history)

    @property
    def values(self) -> dict[str, str]:
        """The same by name."""
        return {"body": self.body, "compare": self.compare, "history": self.history}


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePage:
    """All that the page of a message shows. `may` has the acts that its state allows.

    `seen` is its mark as it was before the page was made: if another one is told, it changed.
    """

    found: MessageDetails
    waits: Waits
    state: Sentence
    badge: tuple[str, str]
    may: frozenset[str]
    attempts: Sequence[AttemptRow]
    difference: Difference | None
    headers: Sequence[Header]
    headers_left_out: int
    body: ShownBody
    history: Listing[LineShown]
    seen: MessageMark | None

    @property
    def message(self) -> ListedMessage:
        """The message as lists show it."""
        return self.found.message

    @property
    def title(self) -> str:
        """What failed, in one line."""
        message = self.message
        parts = (message.exception_type, message.exception_message or message.failure_reason)
        said = ": ".join(part for part in parts if part) or "It failed without a reason"
        return said.strip().split("\n", 1)[0][:200]

    @property
    def group(self) -> FailureGroup | None:
        """The group of what failed alike."""
        of_exception = (each for each in self.found.groups if each.classifier == CLASSIFIERS[0])
        return next(of_exception, None)

    @property
    def more_bytes(self) -> MoreBytes | None:
        """What is shown when more of a body is asked for that is shown as bytes."""
        path, body = f"/messages/{self.message.unique_message_id}", self.body
        return bytes_shown(body, path) if body.kind is Kind.BYTES and body.is_cut else None

    def to(self, **values: str) -> str:
        """Return the address of this message, shown in another way."""
        return self.history.to(**values)


def message_page(
    found: MessageDetails,
    body: ShownBody,
    history: Page[HistoryLine],
    query: MessageQuery,
    waits: Waits,
    seen: MessageMark | None,
) -> MessagePage:
    """Return a message as it is shown."""
    unique_id = found.message.unique_message_id
    listing = Listing(
        rows=[tell_line(each) for each in history.items],
        total=history.total,
        number=query.number,
        path=f"/messages/{unique_id}",
        values=query.values,
        size=LINES,
        page="history",
    )
    compared = _compared(found, query.compare)
    return MessagePage(
        found=found,
        waits=waits,
        state=tell_state(found, waits=waits.any),
        badge=tell_badge(found.message),
        may=frozenset(_allowed(found)),
        attempts=list(_attempts(found, listing, compared)),
        difference=_difference(found, compared),
        headers=[_header(name, found.headers[name]) for name in _names(found.headers)],
        headers_left_out=max(0, len(found.headers) - MOST_HEADERS),
        body=body,
        history=listing,
        seen=seen,
    )


def stage_of(claim: ShownClaim | None) -> ClaimStage:
    """Return how far the retry of a message is."""
    if claim is None:
        return ClaimStage.NONE
    if claim.forwarded_at is not None:
        return ClaimStage.SENT
    return ClaimStage.CLAIMED if claim.sending_since is None else ClaimStage.BEING_SENT


def _allowed(found: MessageDetails) -> Iterator[str]:
    """Yield what may be done; the gateway judges again when it is asked for."""
    message, stage = found.message, stage_of(found.claim)
    status, disposition = message.status, message.disposition
    is_dead = why_not_revive(status, disposition, stage) is None
    if is_dead:
        yield "revive"
    elif status is FailedMessageStatus.UNRESOLVED and stage is ClaimStage.NONE:
        yield "retry"
    if why_not(Act.RELEASE, status, stage) is None:
        yield "again"
    yield from (act for act in _PLAIN if why_not(act, status, stage) is None)
    if why_not_declare_dead(status, disposition, stage) is None:
        yield "dead"


_PLAIN = (Act.ARCHIVE, Act.UNARCHIVE, Act.RESOLVE)


def _first_number(found: MessageDetails) -> int:
    """Return the number of the oldest failure that is shown."""
    return max(1, found.message.attempts - len(found.attempts) + 1)


def _compared(found: MessageDetails, wanted: str) -> int:
    """Return the place of the failure that is compared with the one before it."""
    last = len(found.attempts) - 1
    place = int(wanted[:9]) - _first_number(found) if wanted.isascii() and wanted.isdecimal() else 0
    return place if 1 <= place <= last else last


def _difference(found: MessageDetails, place: int) -> Difference | None:
    if place < 1:
        return None
    attempts = found.attempts
    return compare(attempts[place - 1], attempts[place], _first_number(found) + place)


def _attempts(
    found: MessageDetails, history: Listing[LineShown], compared: int
) -> Iterator[AttemptRow]:
    first = _first_number(found)
    for place, each in reversed(list(enumerate(found.attempts))):
        yield AttemptRow(
            number=first + place,
            at=time_of(each),
            title=_title(each),
            decided=_decided(each),
            host=each.host,
            is_compared=place == compared and place > 0,
            compare=history.to(compare=str(first + place)) if place else "",
        )


def _title(each: ShownAttempt) -> str:
    parts = (each.exception_type, each.exception_message or each.failure_reason)
    said = ": ".join(part for part in parts if part) or "no reason given"
    return said.strip().split("\n", 1)[0][:300]


def _decided(each: ShownAttempt) -> str | None:
    if each.disposition in (None, Disposition.MANUAL) and not each.disposition_reason:
        return None
    parts = (each.disposition, each.disposition_reason)
    return ": ".join(str(part) for part in parts if part)


def _names(headers: Mapping[str, object]) -> Sequence[str]:
    return sorted(headers, key=str.lower)[:MOST_HEADERS]


def _header(name: str, value: object) -> Header:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return Header(
        name=name[:LONGEST_VALUE],
        value=text[:LONGEST_VALUE],
        more=max(0, len(text) - LONGEST_VALUE),
    )
