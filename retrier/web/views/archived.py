"""Archived messages: what was set aside, by whom and when, and the form that takes them back."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.selection import Selection
from retrier.store.queries.archive_previews import ArchivePreview
from retrier.store.queries.archived import ArchivedBy
from retrier.store.queries.messages import ListedMessage
from retrier.store.queries.ordering import Page
from retrier.web.views.confirmations import Confirmation
from retrier.web.views.message_lines import title_of
from retrier.web.views.pages import Listing, page_number
from retrier.web.wording import plural

PATH = "/archived"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedQuery:
    """The query of the list, as it stands in its address. `by` is an archive operation."""

    text: str = ""
    queue: str = ""
    group: str = ""
    by: str = ""
    page: str = ""

    @property
    def conditions(self) -> Mapping[str, str]:
        """What narrows the list."""
        found = {"text": self.text, "queue": self.queue, "group": self.group, "by": self.by}
        return {name: value for name, value in found.items() if value}

    @property
    def number(self) -> int:
        """Which page."""
        return page_number(self.page)

    def select(self) -> Selection:
        """Return what matches, in whatever status it is."""
        given = self.conditions
        return Selection(
            text=given.get("text"),
            queue=given.get("queue"),
            group=given.get("group"),
            archived_by=given.get("by"),
        )

    def select_archived(self) -> Selection:
        """Return what matches and is archived."""
        return replace(self.select(), statuses=frozenset({FailedMessageStatus.ARCHIVED}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A condition of the list, and the address of the list without it."""

    name: str
    value: str
    without: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedRow:
    """One message; `by` is None if nobody knows any more who archived it."""

    unique_id: str
    title: str
    sample: str | None
    queue: str
    message_type: str | None
    by: ArchivedBy | None
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedList:
    """All that the list shows. `all_of_them` leads to the preview of everything that matches."""

    listing: Listing[ArchivedRow]
    query: ArchivedQuery
    tokens: Sequence[Token]
    all_of_them: str


def archived_list(
    found: Page[ListedMessage], archivers: Mapping[str, ArchivedBy], query: ArchivedQuery
) -> ArchivedList:
    """Return one page of archived messages."""
    values = dict(query.conditions)
    listing = Listing(
        rows=[_row(each, archivers.get(each.unique_message_id)) for each in found.items],
        total=found.total,
        number=query.number,
        path=PATH,
        values=values,
    )
    preview = replace(listing, path=f"{PATH}/unarchive").to()
    return ArchivedList(
        listing=listing, query=query, tokens=list(_tokens(listing)), all_of_them=preview
    )


def unarchiving(
    query: ArchivedQuery, found: ArchivePreview, until: Mapping[str, str]
) -> Confirmation:
    """Return the question before everything that matches is unarchived; `until` bounds it."""
    what = ", ".join(f"{name} {value}" for name, value in query.conditions.items())
    listing: Listing[ArchivedRow] = Listing(
        rows=(), total=0, number=1, path=PATH, values=query.conditions
    )
    return Confirmation(
        title=f"Unarchive {plural(found.total, 'message')}?" if found.total else "Nothing matches",
        lead=f"Archived messages that match: {what or 'all of them'}.",
        act=f"Unarchive {plural(found.total, 'message')}",
        post_to=f"{PATH}/unarchive",
        back=listing.to(),
        notes=["They are unresolved again. Nothing is sent: a retry is asked for separately."],
        skipped=found.skipped_because,
        fields=[*query.conditions.items(), *until.items(), ("all", "yes")],
        asks_why=True,
        is_empty=found.total == 0,
    )


def _row(each: ListedMessage, by: ArchivedBy | None) -> ArchivedRow:
    return ArchivedRow(
        unique_id=each.unique_message_id,
        title=title_of(each),
        sample=each.exception_message,
        queue=each.queue,
        message_type=each.message_type,
        by=by,
        changed_at=each.last_modified,
    )


_NAMES = {"by": "archived by operation"}


def _tokens(listing: Listing[ArchivedRow]) -> Iterator[Token]:
    for name, value in listing.values.items():
        yield Token(name=_NAMES.get(name, name), value=value, without=listing.to(**{name: ""}))
