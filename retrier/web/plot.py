"""The plot of the overview: failures, retries and confirmations over a time that the reader picks.

An SVG made by the server, the same as a table, and as a sentence for those who see neither.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from retrier.store.event_log import Mark
from retrier.web.counts import Snapshot
from retrier.web.series import Slot
from retrier.web.wording import plural

HEIGHT = 72
_SLOT = 12
_BAR = 3
_LEAST = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A time that can be plotted: `count` slots of the length `slot`."""

    title: str
    short: str
    slot: timedelta
    count: int
    each: str
    begin: str

    @property
    def is_by_hours(self) -> bool:
        """Whether whole hours are enough for it."""
        return self.slot >= timedelta(hours=1)


_MINUTE, _HOUR = timedelta(minutes=1), timedelta(hours=1)

SPANS: Mapping[str, Span] = {
    "hour": Span(
        title="The last hour",
        short="1 hour",
        slot=_MINUTE,
        count=60,
        each="a minute",
        begin="an hour ago",
    ),
    "6h": Span(
        title="The last 6 hours",
        short="6 hours",
        slot=6 * _MINUTE,
        count=60,
        each="in 6 minutes",
        begin="6 hours ago",
    ),
    "day": Span(
        title="The last 24 hours",
        short="24 hours",
        slot=24 * _MINUTE,
        count=60,
        each="in 24 minutes",
        begin="24 hours ago",
    ),
    "week": Span(
        title="The last 7 days",
        short="7 days",
        slot=3 * _HOUR,
        count=56,
        each="in 3 hours",
        begin="7 days ago",
    ),
    "month": Span(
        title="The last 30 days",
        short="30 days",
        slot=12 * _HOUR,
        count=60,
        each="in 12 hours",
        begin="30 days ago",
    ),
}
"""What can be plotted, by its name in addresses; the first one unless another is asked for."""

_KINDS = ("failed", "sent", "confirmed")
_TONES: Mapping[str, str] = {
    "breaker_opened": "bad",
    "canary_failed": "bad",
    "breaker_closed": "good",
    "operation_resumed": "good",
}
MOST_LISTED = 50
"""Marks that the table lists, the newest ones; the plot shows all."""


def plot(found: Snapshot, named: str) -> dict[str, object]:
    """Return what the plot of a span that ends now shows: bars, their scale, marks, and it in words.

    A bar has its kind, which is its class, and where it stands: x, y and height. A mark has its
    tone and its x.
    """
    name = named if named in SPANS else next(iter(SPANS))
    span = SPANS[name]
    begins = _begin(found.at, span)
    known = (*found.hours, *found.minutes) if span.is_by_hours else found.minutes
    slots = _slots(known, begins, span)
    marks = [each for each in found.marks if each.at >= begins]
    most = max((max(each.failed, each.sent, each.confirmed) for each in slots), default=0)
    return {
        "title": span.title,
        "span": name,
        "spans": SPANS,
        "each": span.each,
        "begin": span.begin,
        "form": "full" if span.is_by_hours else "clock",
        "width": span.count * _SLOT,
        "height": HEIGHT,
        "bars": list(_bars(slots, begins, span.slot, most)),
        "most": most,
        "words": _words(span.title, slots, marks),
        "slots": slots,
        "marks": [
            (_TONES.get(each.kind, ""), round((each.at - begins) / span.slot * _SLOT))
            for each in marks
        ],
        "listed": marks[::-1][:MOST_LISTED],
        "unlisted": max(0, len(marks) - MOST_LISTED),
    }


def _begin(now: datetime, span: Span) -> datetime:
    """Return when the first slot begins; slots of hours begin with an hour."""
    if not span.is_by_hours:
        return now - span.count * span.slot
    return now.replace(minute=0, second=0, microsecond=0) + _HOUR - span.count * span.slot


def _slots(known: Sequence[Slot], begins: datetime, span: Span) -> Sequence[Slot]:
    # The minute in which the first slot begins counts as a whole.
    first = begins if span.is_by_hours else begins - _MINUTE
    found: dict[int, Slot] = {}
    for each in known:
        place = int((each.at - begins) / span.slot)
        if each.at >= first and 0 <= place < span.count:
            before = found.get(place, Slot(at=begins + place * span.slot))
            found[place] = before.plus(each.failed, each.sent, each.confirmed)
    return [found[place] for place in sorted(found)]


def _bars(
    slots: Sequence[Slot], begins: datetime, slot: timedelta, most: int
) -> Iterator[tuple[str, int, int, int]]:
    for each in slots:
        left = round((each.at - begins) / slot) * _SLOT
        for place, kind in enumerate(_KINDS):
            value = getattr(each, kind)
            if value:
                height = max(_LEAST, round(value / most * (HEIGHT - _LEAST)))
                yield kind, left + 1 + place * _BAR, HEIGHT - height, height


def _words(title: str, slots: Sequence[Slot], marks: Sequence[Mark]) -> str:
    failed, sent, confirmed = (sum(getattr(each, kind) for each in slots) for kind in _KINDS)
    counts = (
        f"{plural(failed, 'failure')}, {plural(sent, 'retry sent', 'retries sent')}, "
        f"{plural(confirmed, 'confirmation')}"
    )
    done = f"; {plural(len(marks), 'mark')} of what was done" if marks else ""
    return f"{title}: {counts}{done}"
