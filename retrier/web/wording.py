"""The words of the page: states and acts, and numbers, times and durations as people read them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from markupsafe import Markup

from retrier.domain.archive_operation import Act
from retrier.domain.classifiers import WITHOUT_TRACE
from retrier.domain.failed_message import Disposition, FailedMessageStatus, Resolution
from retrier.domain.values import dataclass

_WORDS = [
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
]
STATUSES: Mapping[FailedMessageStatus, tuple[str, str]] = {
    FailedMessageStatus.UNRESOLVED: ("unresolved", "bad"),
    FailedMessageStatus.RETRY_ISSUED: ("being retried", "wait"),
    FailedMessageStatus.RESOLVED: ("resolved", "good"),
    FailedMessageStatus.ARCHIVED: ("archived", ""),
}
"""What has become of a message, and the tone of the word."""
DISPOSITIONS: Mapping[Disposition, tuple[str, str]] = {
    Disposition.MANUAL: ("waits for a person", ""),
    Disposition.SCHEDULED: ("scheduled", "wait"),
    Disposition.DEAD: ("dead", "bad"),
}
"""What happens next with one that is unresolved."""
RESOLUTIONS: Mapping[Resolution, str] = {
    Resolution.CONFIRMED: "resolved: its retry was confirmed",
    Resolution.PRESUMED: "resolved: its retry did not come back",
    Resolution.BY_HAND: "resolved by hand",
    Resolution.EDITED: "resolved: it was sent as edited",
}
ACTS: Mapping[str, str] = {
    "retry": "Retry",
    "again": "Retry again",
    Act.ARCHIVE: "Archive",
    Act.UNARCHIVE: "Unarchive",
    Act.RESOLVE: "Resolve",
}
"""What stands on the button of an act."""
DONE: Mapping[Act, str] = {
    Act.ARCHIVE: "archived",
    Act.UNARCHIVE: "unarchived",
    Act.RESOLVE: "resolved",
}
"""What an act has done with its messages."""

_BAD_EVENTS = frozenset({"retry_returned", "failed_import", "import_in_doubt", "canary_failed"})
_EVENTS_TO_NOTE = frozenset(
    {
        "retry_skipped",
        "own_copy_came_back",
        "copy_of_another_came",
        "import_kept",
        "import_not_sent",
        "batch_adopted",
        "batch_moved",
        "sent_again",
        "archive_refused",
        "unarchive_refused",
        "resolve_refused",
        "message_dead",
        "policies_wrong",
    }
)
_STEPS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
_KIB = 1024
_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069"
    "\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
"""Controls, marks that turn the direction of what follows, and what takes no room."""


def number(value: int) -> str:
    """Return a number with thousands separators: `31,204`."""
    return f"{value:,}"


def in_words(value: int) -> str:
    """Return a small number as a word, a larger one as digits."""
    return _WORDS[value] if value < len(_WORDS) else number(value)


def plural(value: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: `1 message`, `31,204 messages`."""
    return f"{number(value)} {noun(value, one, many)}"


def noun(value: int, one: str, many: str | None = None) -> str:
    """Return the noun that goes with a number."""
    return one if value == 1 else many or f"{one}s"


def duration(span: timedelta | float) -> str:
    """Return a span in its largest unit: `38 seconds`, `4 hours`."""
    seconds = span.total_seconds() if isinstance(span, timedelta) else span
    for size, unit in _STEPS:
        if seconds >= size:
            return plural(int(seconds // size), unit)
    return "a moment"


def ago(moment: datetime, now: datetime) -> str:
    """Return how long ago that was: `40 seconds ago`, `just now`; of the future, when it will be."""
    span = now - moment
    if abs(span) < timedelta(seconds=2):
        return "just now"
    return f"{duration(span)} ago" if span > timedelta() else f"in {duration(-span)}"


def iso(moment: datetime) -> str:
    """Return a moment for the `datetime` of an element, in UTC."""
    text = moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")
    return f"{text}Z"


def utc(moment: datetime) -> str:
    """Return a moment in UTC, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def clock(moment: datetime) -> str:
    """Return the time of day in UTC, for readers without scripts."""
    return moment.astimezone(UTC).strftime("%H:%M UTC")


def size(count: int) -> str:
    """Return a number of bytes: `64 bytes`, `5.0 MiB`."""
    if count < _KIB:
        return plural(count, "byte")
    kib = count / _KIB
    return f"{kib:,.1f} KiB" if kib < _KIB else f"{kib / _KIB:,.1f} MiB"


def next_words(
    status: FailedMessageStatus, disposition: Disposition, resolution: Resolution | None
) -> tuple[str, str]:
    """Return in few words what happens next with a message, and the tone of these words."""
    if status is FailedMessageStatus.UNRESOLVED:
        return DISPOSITIONS[disposition]
    words, tone = STATUSES[status]
    return words if resolution is None else RESOLUTIONS[resolution], tone


def event_tone(kind: str) -> str:
    """Return the tone of a kind of event: `bad`, `wait` or nothing."""
    return "bad" if kind in _BAD_EVENTS else "wait" if kind in _EVENTS_TO_NOTE else ""


def listed(names: Sequence[str], most: int = 2) -> str:
    """Return names in one phrase: `orders, payments and 3 more`."""
    shown, more = list(names[:most]), len(names) - most
    if more > 0:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join(shown)


def capital(text: str) -> str:
    """Return a text with a capital at its beginning."""
    return text[:1].upper() + text[1:]


def sentence(text: str) -> str:
    """Return a reason as a whole sentence: with a capital, and with a full stop."""
    said = plainly(text)
    return capital(said) if said.endswith((".", "!", "?")) else f"{capital(said)}."


def title_words(title: str) -> str:
    """Return the title of a group as a page says it: what its failures say stands below it."""
    return title.removesuffix(WITHOUT_TRACE)


_ON_THE_PAGE = {
    "`retrier pending retry` or `retrier pending resolve`": "see Pending",
    "`retrier retry` sends back what is unresolved": "only a dead message is revived",
    "`retrier imports list`": "see Failed imports",
}
"""What a reason says of commands, for a person in a browser."""
_QUOTED = re.compile(r"`([^`]*)`")


def plainly(text: str) -> str:
    """Return a reason as a page says it: with pages for commands, and names in quotes."""
    for command, words in _ON_THE_PAGE.items():
        text = text.replace(command, words)
    return _QUOTED.sub(r"“\1”", text)


def first_line(text: str) -> str:
    """Return the first line of a text that may have several."""
    return text.strip().split("\n", 1)[0]


def visible(text: str) -> str:
    """Return text in which nothing is hidden: each unseen character is shown by its number.

    Some of them would let the reader see another order of letters than there is.
    """
    return _UNSEEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)


_PLACES = re.compile(r"(?<=[._/:-])|(?<=[a-z])(?=[A-Z])")


def breakable(name: str) -> Markup:
    """Return a name as `visible` does, with places where a narrow column may break it."""
    return Markup("<wbr>").join(part for part in _PLACES.split(visible(name)) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One line. `live` is the key of the text that replaces the value; `when` is shown as a time."""

    name: str
    value: str = ""
    live: str | None = None
    link: str | None = None
    when: datetime | None = None


def time_facts(**moments: datetime | None) -> Iterator[Fact]:
    """Yield the moments that are known; the names are those of the arguments."""
    for name, moment in moments.items():
        if moment is not None:
            yield Fact(name=name.replace("_", " ").capitalize(), when=moment)
