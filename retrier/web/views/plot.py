"""The plot of the overview: bars by time, as numbers for an SVG that the server writes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from retrier.web.snapshot import Minute
from retrier.web.wording import plural

SLOTS = 60
HEIGHT = 72
_SLOT = 12
_BAR = 3
_LEAST = 2

SPANS: Mapping[str, tuple[str, timedelta]] = {
    "hour": ("The last hour", timedelta(minutes=1)),
    "day": ("The last 24 hours", timedelta(minutes=24)),
}
"""What can be plotted, and how much time a slot is."""

_KINDS = ("failed", "sent", "confirmed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar; `kind` is its class."""

    kind: str
    x: int
    y: int
    height: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Bars, their scale, and the same in words and numbers for those who do not see them."""

    title: str
    span: str
    width: int
    height: int
    bars: Sequence[Bar]
    most: int
    begins: datetime
    ends: datetime
    slot: timedelta
    words: str
    slots: Sequence[Minute]


def plot(minutes: Sequence[Minute], now: datetime, span: str) -> Plot:
    """Return the plot of a span that ends now."""
    title, slot = SPANS[span]
    begins = now - SLOTS * slot
    slots = _slots(minutes, begins, slot)
    most = max((max(each.failed, each.sent, each.confirmed) for each in slots), default=0)
    return Plot(
        title=title,
        span=span,
        width=SLOTS * _SLOT,
        height=HEIGHT,
        bars=list(_bars(slots, begins, slot, most)),
        most=most,
        begins=begins,
        ends=now,
        slot=slot,
        words=_words(title, slots),
        slots=slots,
    )


def _slots(minutes: Sequence[Minute], begins: datetime, slot: timedelta) -> Sequence[Minute]:
    found: dict[int, Minute] = {}
    for each in minutes:
        place = int((each.at - begins) / slot)
        if each.at >= begins - slot and 0 <= place < SLOTS:
            before = found.get(place, Minute(at=begins + place * slot))
            found[place] = Minute(
                at=before.at,
                failed=before.failed + each.failed,
                sent=before.sent + each.sent,
                confirmed=before.confirmed + each.confirmed,
            )
    return [found[place] for place in sorted(found)]


def _bars(slots: Sequence[Minute], begins: datetime, slot: timedelta, most: int) -> Iterator[Bar]:
    for each in slots:
        left = round((each.at - begins) / slot) * _SLOT
        for place, kind in enumerate(_KINDS):
            value = getattr(each, kind)
            if value:
                height = max(_LEAST, round(value / most * (HEIGHT - _LEAST)))
                yield Bar(kind=kind, x=left + 1 + place * _BAR, y=HEIGHT - height, height=height)


def _words(title: str, slots: Sequence[Minute]) -> str:
    failed, sent, confirmed = (sum(getattr(each, kind) for each in slots) for kind in _KINDS)
    counts = (
        f"{plural(failed, 'failure')}, {plural(sent, 'retry sent', 'retries sent')}, "
        f"{plural(confirmed, 'confirmation')}"
    )
    return f"{title}: {counts}"
