"""Two failures of one message side by side, with what changed between them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import unified_diff

from retrier.store.queries.attempts import ShownAttempt

_MOST_LINES = 400
"""Lines of a stack trace that are compared: the rest would take long."""
_MOST_SHOWN = 2000
"""Characters of a text that are shown beside another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One thing that is known of two failures."""

    name: str
    before: str | None
    after: str | None

    @property
    def is_changed(self) -> bool:
        """Whether it is not the same."""
        return self.before != self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceLine:
    """A line of a stack trace: `ins`, `del`, or the same in both."""

    mark: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Two failures of a message, by their numbers, and what they have in common and what not."""

    before: int
    after: int
    times: tuple[datetime, datetime]
    pairs: Sequence[Pair]
    trace: Sequence[TraceLine]
    has_trace: bool


def compare(before: ShownAttempt, after: ShownAttempt, number: int) -> Difference:
    """Return what changed; `number` is that of the later failure."""
    return Difference(
        before=number - 1,
        after=number,
        times=(time_of(before), time_of(after)),
        pairs=list(_pairs(before, after)),
        trace=list(_trace(before.stack_trace or "", after.stack_trace or "")),
        has_trace=bool(before.stack_trace or after.stack_trace),
    )


def time_of(failed: ShownAttempt) -> datetime:
    """Return when it failed, or at least when that was seen."""
    return failed.time_of_failure or failed.received_at


def _pairs(before: ShownAttempt, after: ShownAttempt) -> Iterator[Pair]:
    for name, words in _FIELDS.items():
        one, other = _text(getattr(before, name)), _text(getattr(after, name))
        if one is not None or other is not None:
            yield Pair(name=words, before=one, after=other)


_FIELDS = {
    "exception_type": "Exception",
    "exception_message": "Says",
    "failure_reason": "Reason given",
    "reason": "Classified as",
    "queue": "Queue",
    "endpoint": "Endpoint",
    "host": "Host",
    "process": "Process",
    "node": "Node",
    "message_type": "Message type",
    "disposition": "Decided",
    "disposition_reason": "Because",
    "policy": "Policy",
    "error_queue": "Error queue",
}


def _text(value: object) -> str | None:
    return None if value is None else str(value)[:_MOST_SHOWN]


def _trace(before: str, after: str) -> Iterator[TraceLine]:
    one, other = (text.splitlines()[:_MOST_LINES] for text in (before, after))
    lines = unified_diff(one, other, n=1, lineterm="")
    for line in list(lines)[2:]:
        mark = {"+": "ins", "-": "del"}.get(line[:1], "")
        yield TraceLine(mark=mark, text="…" if line.startswith("@@") else line[1:])
