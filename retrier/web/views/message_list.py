"""The list of messages: its filter in words, its rows, and what can be done with those selected."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from retrier.domain.comments import Comment
from retrier.domain.failed_message import Disposition, FailedMessageStatus, Resolution
from retrier.domain.selection import Selection
from retrier.store.queries.messages import ListedMessage
from retrier.store.queries.ordering import Order, Sort
from retrier.web.filters import ANY_STATUS, FilterQuery, only_status
from retrier.web.views.pages import Listing

DEFAULT_SORT = Sort.TIME_OF_FAILURE

STATUS_NAMES: Mapping[str, str] = {
    FailedMessageStatus.UNRESOLVED: "unresolved",
    FailedMessageStatus.RETRY_ISSUED: "being retried",
    FailedMessageStatus.RESOLVED: "resolved",
    FailedMessageStatus.ARCHIVED: "archived",
    ANY_STATUS: "all",
}
DISPOSITION_NAMES: Mapping[str, str] = {
    "manual": "waits for a person",
    "scheduled": "is retried by itself",
    "dead": "is dead",
    "any": "dead or not",
}
SORT_NAMES: Mapping[str, str] = {
    Sort.TIME_OF_FAILURE: "last failure",
    Sort.TIME_SENT: "time sent",
    Sort.MODIFIED: "last change",
    Sort.MESSAGE_TYPE: "message type",
    Sort.MESSAGE_ID: "message id",
    Sort.STATUS: "status",
}
RESOLUTION_NAMES: Mapping[Resolution, str] = {
    Resolution.CONFIRMED: "resolved: its retry was confirmed",
    Resolution.PRESUMED: "resolved: its retry did not come back",
    Resolution.BY_HAND: "resolved by hand",
}
_TOKENS: Mapping[str, str] = {
    "text": "text",
    "group": "group",
    "queue": "queue",
    "endpoint": "endpoint",
    "message_type": "type",
    "exception_type": "exception",
    "reason": "reason",
    "stream": "stream",
    "host": "host",
    "process": "process",
    "node": "node",
    "message_id": "message id",
    "failed_from": "failed from",
    "failed_to": "failed until",
    "attempts_at_least": "failed at least",
    "disposition": "next",
    "archived_by": "archived by operation",
}
_ACTS: Mapping[FailedMessageStatus | None, tuple[str, ...]] = {
    FailedMessageStatus.UNRESOLVED: ("retry", "archive", "resolve"),
    FailedMessageStatus.RETRY_ISSUED: ("again", "resolve"),
    FailedMessageStatus.ARCHIVED: ("unarchive",),
    FailedMessageStatus.RESOLVED: (),
    None: ("retry", "archive", "resolve"),
}
ACT_NAMES = {
    "retry": "Retry",
    "again": "Retry again",
    "archive": "Archive",
    "unarchive": "Unarchive",
    "resolve": "Resolve",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One condition, readable; `moment` is its value if that is a time."""

    name: str
    value: str
    without: str
    moment: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRow:
    """One message: the cause first, then where, then what happens next."""

    unique_id: str
    title: str
    said: str | None
    message_type: str | None
    queue: str
    attempts: int
    last_failure: datetime
    next_words: str
    tone: str
    next_at: datetime | None
    why: str | None
    may_be_retried: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownGroup:
    """The group whose messages are listed, with what a person wrote about it."""

    group_id: str
    title: str
    comment: Comment | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageList:
    """All that the page of messages shows.

    `since` is the failure number up to which failures can be in it. `everything` says whether all
    that matches can be selected. `acts` are the names of what can be done, by their words in forms.
    `group` is there if the list shows one group.
    """

    listing: Listing[MessageRow]
    query: FilterQuery
    order: Order
    tokens: Sequence[Token]
    status: str
    since: int
    everything: bool
    acts: Mapping[str, str]
    group: ShownGroup | None = None

    @property
    def is_filtered(self) -> bool:
        """Whether a failure that is new need not be in this list."""
        return bool(self.tokens) or self.status != FailedMessageStatus.UNRESOLVED

    @property
    def status_names(self) -> Mapping[str, str]:
        """The statuses to choose from."""
        return STATUS_NAMES

    @property
    def disposition_names(self) -> Mapping[str, str]:
        """What can happen next, to choose from."""
        return DISPOSITION_NAMES

    @property
    def sort_names(self) -> Mapping[str, str]:
        """What the list can be sorted by."""
        return SORT_NAMES

    def with_status(self, status: str) -> str:
        """Return the address of the list with another status."""
        return self.listing.to(status=status)

    def sorted_by(self, sort: str) -> str:
        """Return the address of the list sorted so; the other way round if it is so already."""
        turned = sort == self.order.sort and self.order.descending
        return self.listing.to(sort=sort, direction="asc" if turned else "")


def status_of(shown: Selection) -> str:
    """Return the status that a list shows; empty if it shows some, and not all."""
    if shown.statuses is None:
        return ANY_STATUS
    return only_status(shown) or ""


def acts_on(shown: Selection) -> Mapping[str, str]:
    """Return what can be done with the messages of a list."""
    return {act: ACT_NAMES[act] for act in _ACTS[only_status(shown)]}


def tokens(
    query: FilterQuery, shown: Selection, listing: Listing[MessageRow], title: str | None
) -> Iterator[Token]:
    """Return the conditions without the status; `title` is that of the group."""
    named = {"group": title or query.group, "disposition": DISPOSITION_NAMES.get(query.disposition)}
    times = {"failed_from": shown.failed_from, "failed_to": shown.failed_to}
    for name, words in _TOKENS.items():
        if name in query.values:
            value = named.get(name) or query.values[name]
            yield Token(
                name=words,
                value=f"{value} times" if name == "attempts_at_least" else value,
                without=listing.to(**{name: ""}),
                moment=times.get(name),
            )


def row(found: ListedMessage, waits: str | None = None) -> MessageRow:
    """Return a message as a row; `waits` says what holds it, if anything does."""
    words, tone = describe_next(found)
    said = found.exception_message or found.failure_reason
    scheduled = _is(found, Disposition.SCHEDULED)
    return MessageRow(
        unique_id=found.unique_message_id,
        title=found.exception_type or found.failure_reason or "no reason given",
        said=said.strip().split("\n", 1)[0] if said and found.exception_type else None,
        message_type=found.message_type,
        queue=found.queue,
        attempts=found.attempts,
        last_failure=found.last_failure,
        next_words=words,
        tone=tone,
        next_at=found.retry_at if scheduled else None,
        why=(waits or found.disposition_reason)
        if found.status is FailedMessageStatus.UNRESOLVED
        else None,
        may_be_retried=found.status is FailedMessageStatus.UNRESOLVED,
    )


def describe_next(found: ListedMessage) -> tuple[str, str]:
    """Return in few words what happens next with a message, and the tone of these words."""
    match found.status:
        case FailedMessageStatus.RETRY_ISSUED:
            return "being retried", "wait"
        case FailedMessageStatus.ARCHIVED:
            return "archived", ""
        case FailedMessageStatus.RESOLVED:
            words = RESOLUTION_NAMES[found.resolution] if found.resolution else "resolved"
            return words, "good"
        case _:
            return _next_of_unresolved(found.disposition)


def _next_of_unresolved(disposition: Disposition) -> tuple[str, str]:
    match disposition:
        case Disposition.DEAD:
            return "dead", "bad"
        case Disposition.SCHEDULED:
            return "retried", "wait"
        case _:
            return "waits for a person", ""


def _is(found: ListedMessage, disposition: Disposition) -> bool:
    unresolved = found.status is FailedMessageStatus.UNRESOLVED
    return unresolved and found.disposition is disposition
