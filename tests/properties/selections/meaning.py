"""What each condition means, as the documentation says it: plain Python over plain values.

Nothing of the product is used here, so that a fault of the product is none of the meaning.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import md5
from unicodedata import normalize
from uuid import UUID

OWN_TEXT = True
"""Turn this on when `text` searches each message's own texts, folded alike on both databases.

With it come two more meanings: the endpoint that is shown for a message without one is its
endpoint, and texts sort by code point on every database.
"""

Conditions = Mapping[str, str]
"""Values by the name of the condition, each as it stands in an address."""

STATUSES = ("unresolved", "retryIssued", "resolved", "archived")

SOURCES = {
    "archive": "unresolved",
    "unarchive": "archived",
    "resolve": "unresolved",
    "retry": "unresolved",
}
"""The status of the messages that an act on a condition means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What the headers of one failure say. `body` names the message, and no other has it."""

    body: bytes
    queue: str
    failed_at: datetime
    time_sent: datetime | None = None
    endpoint: str | None = None
    message_type: str | None = None
    exception_type: str | None = None
    exception_message: str | None = None
    frame: str | None = None
    word: str | None = None
    stream: str | None = None
    host: str | None = None
    process: str | None = None
    node: str | None = None
    message_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One failed message: its newest failure, and what became of it.

    `reason` is what it is classified under. `disposition` says nothing of a message that is not
    unresolved: it is `manual` then. `archived_by` is there as long as it is archived.
    `operation` is the one that retried it, and `outcome` what became of that.
    """

    sent: Sent
    unique_id: str
    status: str = "unresolved"
    disposition: str = "manual"
    reason: str = "handler_exception"
    attempts: int = 1
    archived_by: str | None = None
    operation: str | None = None
    outcome: str | None = None
    modified: datetime = datetime(1, 1, 1, tzinfo=UTC)

    @property
    def endpoint(self) -> str | None:
        """The endpoint that people see."""
        return self.sent.endpoint or (self.sent.queue if OWN_TEXT else None)


def select(wanted: Conditions, messages: Iterable[Known]) -> list[Known]:
    """Return the messages that meet all of these conditions."""
    return [each for each in messages if all(_MEANS[n](v, each) for n, v in wanted.items())]


def select_for(act: str, wanted: Conditions, messages: Iterable[Known]) -> list[Known]:
    """Return the messages that an act on these conditions takes: those of its status.

    A retry leaves dead ones out, unless the condition asks for them.
    """
    found = [each for each in select(wanted, messages) if each.status == SOURCES[act]]
    if act != "retry" or wanted.get("disposition") in ("dead", "any"):
        return found
    return [each for each in found if each.disposition != "dead"]


def read_time(text: str) -> datetime:
    """Return a time in UTC; without an offset it is in UTC already."""
    time = datetime.fromisoformat(text)
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)


def read_end(text: str) -> datetime:
    """Return the last moment of a time that ends a range: of its day, its minute or its second.

    Only a time with a fraction is exact.
    """
    time = read_time(text)
    if "." in text:
        return time
    if "T" not in text:
        return time + timedelta(days=1, microseconds=-1)
    clock = re.split("[+-]", text.partition("T")[2])[0]
    return time.replace(microsecond=999_999, second=time.second if clock.count(":") == 2 else 59)


def fold(text: str) -> str:
    """Return a text as it is compared in any case: Unicode's simple folding, and NFC."""
    return normalize("NFC", "".join(map(_fold_one, normalize("NFC", text))))


def _fold_one(letter: str) -> str:
    # Simple folding keeps the number of letters: one that would become two stays, or has a small one.
    return next((each for each in (letter.casefold(), letter.lower()) if len(each) == 1), letter)


def groups_of(sent: Sent) -> frozenset[str]:
    """Return the ids of the groups of a failure, one of each classifier."""
    exception = (
        f"{sent.exception_type}: {sent.frame or 'No stacktrace'}"
        if sent.exception_type
        else f"{sent.word or 'no reason given'}: {sent.queue}"
    )
    titles = {
        "Exception Type and Stack Trace": exception,
        "Message Type": sent.message_type or f"no message type: {sent.queue}",
        "Endpoint Address": sent.queue,
        "Endpoint Name": sent.endpoint or f"no endpoint name: {sent.queue}",
    }
    mixed = (md5((name + title).encode(), usedforsecurity=False) for name, title in titles.items())
    return frozenset(str(UUID(bytes_le=each.digest())) for each in mixed)


def _has_status(text: str, message: Known) -> bool:
    if text == "dead":
        return message.status == "unresolved" and message.disposition == "dead"
    names = text.split(",")
    included = {name for name in names if not name.startswith("-")} or set(STATUSES)
    return message.status in included - {name[1:] for name in names if name.startswith("-")}


def _has_text(text: str, message: Known) -> bool:
    sent = message.sent
    texts = (
        *(sent.queue, message.endpoint, sent.message_type, sent.exception_type),
        *(sent.exception_message, sent.word, message.reason),
    )
    named = text == sent.message_id or text.lower() == message.unique_id
    return named or any(fold(text) in fold(each) for each in texts if each)


_BUILT_IN = {
    name.replace("_", ""): name
    for name in ("timeout_exceeded", "validation_failure", "handler_exception")
} | {"2": "handler_exception", "3": "validation_failure", "4": "timeout_exceeded"}


def _has_reason(text: str, message: Known) -> bool:
    """Built-in reasons may be written as in headers: `TimeoutExceeded`, `timeout-exceeded`, 4."""
    plain = text.replace("_", "").replace("-", "").lower()
    return message.reason in (text, _BUILT_IN.get(plain)) or message.sent.word == text


def _changed_in(text: str, message: Known) -> bool:
    first, _, last = text.partition("...")
    return read_time(first) <= message.modified <= read_end(last)


def _exactly(value_of: Callable[[Known], str | None]) -> Callable[[str, Known], bool]:
    return lambda text, message: value_of(message) == text


_MEANS: Mapping[str, Callable[[str, Known], bool]] = {
    "status": _has_status,
    "queue": _exactly(lambda each: each.sent.queue),
    "queueaddress": _exactly(lambda each: each.sent.queue),
    "endpoint": _exactly(lambda each: each.endpoint),
    "exception_type": _exactly(lambda each: each.sent.exception_type),
    "message_type": _exactly(lambda each: each.sent.message_type),
    "stream": _exactly(lambda each: each.sent.stream),
    "host": _exactly(lambda each: each.sent.host),
    "process": _exactly(lambda each: each.sent.process),
    "node": _exactly(lambda each: each.sent.node),
    "message_id": _exactly(lambda each: each.sent.message_id),
    "group": lambda text, each: text.lower() in groups_of(each.sent),
    "reason": _has_reason,
    "failed_from": lambda text, each: each.sent.failed_at >= read_time(text),
    "failed_to": lambda text, each: each.sent.failed_at <= read_end(text),
    "attempts_at_least": lambda text, each: each.attempts >= int(text),
    "disposition": lambda text, each: text in ("any", each.disposition),
    "text": _has_text,
    "modified": _changed_in,
    "archived_by": lambda text, each: each.archived_by == text.lower(),
    "operation": lambda text, each: each.operation == text.lower(),
    "outcome": lambda text, each: each.outcome == text,
    "id_prefix": lambda text, each: each.unique_id.startswith(text.lower()),
}

_SHOWN_STATUS = {"retryIssued": "retry_issued"}

_KEYS: Mapping[str, Callable[[Known], object]] = {
    "id": lambda each: each.unique_id,
    "message_id": lambda each: each.sent.message_id,
    "message_type": lambda each: each.sent.message_type,
    "status": lambda each: (_SHOWN_STATUS.get(each.status, each.status), each.sent.failed_at),
    "time_sent": lambda each: each.sent.time_sent,
    "modified": lambda each: each.modified,
    "time_of_failure": lambda each: each.sent.failed_at,
}
SORTS = tuple(_KEYS)
_BY_COLLATION = ("message_id", "message_type")


def is_sorted(messages: Sequence[Known], sort: str, *, descending: bool) -> bool:
    """Say whether they stand in this order; those without the value come last in any case."""
    keys: list[object] = [_KEYS[sort](each) for each in messages]
    there = [key for key in keys if key is not None]
    if keys[: len(there)] != there:
        return False
    if sort in _BY_COLLATION and not OWN_TEXT:
        return True
    return there == sorted(there, reverse=descending)  # type: ignore[type-var] # of one kind each


def name_ids(texts: Sequence[str], messages: Sequence[Known]) -> list[Known] | None:
    """Return the messages that a command names by these texts; None if it has to refuse.

    A text is a whole id, the beginning of one, or a whole message id; if it could be two messages,
    or is none, nothing is done. A whole id that nobody knows is passed over among others.
    """
    found: dict[str, Known] = {}
    for text in texts:
        fitting = [each for each in messages if _is_named(text, each)]
        if len(fitting) > 1 or not (fitting or (is_whole_id(text) and len(texts) > 1)):
            return None
        found.update({each.unique_id: each for each in fitting})
    return list(found.values())


def _is_named(text: str, message: Known) -> bool:
    begins = 8 <= len(text) <= 36 and message.unique_id.startswith(text.lower())
    return begins or text == message.sent.message_id


def is_whole_id(text: str) -> bool:
    """Say whether it has the form of an id."""
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def with_status(message: Known, status: str, **changes: str) -> Known:
    """Return it in another status, in which nothing is decided about it."""
    return replace(message, status=status, disposition="manual", archived_by=None, **changes)  # type: ignore[arg-type]
