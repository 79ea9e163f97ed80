"""Pending retries: what was sent and has no outcome, since when, and what is asked before an act."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode

from retrier.store.queries.ordering import Page
from retrier.store.queries.pending import PendingRetry, Waiting
from retrier.store.queries.recovery import Recovering
from retrier.web.views.archived import Token
from retrier.web.views.message_lines import title_of
from retrier.web.views.pages import Listing, page_number
from retrier.web.wording import duration

PATH = "/pending"

AGES: Mapping[str, timedelta] = {
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
}
"""How old a retry is at least, as it stands in addresses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingQuery:
    """The query of the list, as it stands in its address."""

    queue: str = ""
    operation: str = ""
    older: str = ""
    page: str = ""

    @property
    def values(self) -> Mapping[str, str]:
        """What narrows the list."""
        older = self.older if self.older in AGES else ""
        found = {"queue": self.queue, "operation": self.operation, "older": older}
        return {name: value for name, value in found.items() if value}

    @property
    def number(self) -> int:
        """Which page."""
        return page_number(self.page)

    @property
    def address(self) -> str:
        """The address of the list, on its first page."""
        return f"{PATH}?{urlencode(self.values)}" if self.values else PATH

    @property
    def waiting(self) -> Waiting:
        """Return it as the store is asked."""
        return Waiting(
            queue=self.queue or None,
            operation_id=self.operation or None,
            for_longer_than=AGES.get(self.older),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRow:
    """One pending retry."""

    unique_id: str
    title: str
    sample: str | None
    queue: str
    sent_to: str
    sent_at: datetime | None
    waits: str
    operation_id: str
    retry_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryNote:
    """A recovery after a restore: nothing is presumed, and so many retries were on their way."""

    since: datetime
    sent_from: datetime
    begun_by: str
    sent: int
    sent_again: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingList:
    """All that the list shows. `ages` has the name and the address of each choice."""

    listing: Listing[PendingRow]
    tokens: Sequence[Token]
    ages: Sequence[tuple[str, str, bool]]
    may_take_all: bool
    retry_all: str
    resolve_all: str
    recovery: RecoveryNote | None = None


def pending_list(
    found: Page[PendingRetry], query: PendingQuery, recovering: Recovering | None = None
) -> PendingList:
    """Return one page of pending retries."""
    listing = Listing(
        rows=[_row(each) for each in found.items],
        total=found.total,
        number=query.number,
        path=PATH,
        values=query.values,
    )
    all_of_them = listing.to(all="yes").removeprefix(PATH)
    return PendingList(
        listing=listing,
        tokens=list(_tokens(listing)),
        ages=list(_ages(listing, query)),
        may_take_all=not query.operation,
        retry_all=f"{PATH}/retry{all_of_them}",
        resolve_all=f"{PATH}/resolve{all_of_them}",
        recovery=None if recovering is None else _note(recovering),
    )


def _note(recovering: Recovering) -> RecoveryNote:
    recovery, queues = recovering.recovery, recovering.queues
    return RecoveryNote(
        since=recovery.since,
        sent_from=recovery.sent_from,
        begun_by=recovery.begun_by,
        sent=sum(each.sent for each in queues),
        sent_again=sum(each.in_doubt + each.not_sent for each in queues),
    )


def _row(each: PendingRetry) -> PendingRow:
    message, claim = each.message, each.claim
    return PendingRow(
        unique_id=message.unique_message_id,
        title=title_of(message),
        sample=message.exception_message,
        queue=message.queue,
        sent_to=each.sent_to,
        sent_at=claim.forwarded_at,
        waits=duration(each.waits),
        operation_id=claim.operation_id,
        retry_id=claim.retry_id,
    )


def _ages(listing: Listing[PendingRow], query: PendingQuery) -> Iterator[tuple[str, str, bool]]:
    yield "any age", listing.to(older=""), query.older not in AGES
    for name in AGES:
        yield (
            f"over a{'n' if name == 'hour' else ''} {name}",
            listing.to(older=name),
            (query.older == name),
        )


def _tokens(listing: Listing[PendingRow]) -> Iterator[Token]:
    for name, value in listing.values.items():
        if name != "older":
            yield Token(name=name, value=value, without=listing.to(**{name: ""}))
