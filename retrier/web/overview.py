"""The overview: what is the matter, what is being done about it, and a plot of what happened."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from fastapi import APIRouter, Request, Response

from retrier.domain.classifiers import CLASSIFIERS
from retrier.domain.failed_message import FailedMessageStatus, Resolution
from retrier.domain.processor_work import WaitingFor, find_work
from retrier.domain.values import dataclass
from retrier.domain.wait_reasons import estimate_end
from retrier.http.views import choose
from retrier.store.event_log import Mark
from retrier.web.counts import Snapshot, Trouble
from retrier.web.groups import GroupList, group_prefix
from retrier.web.needs import needs
from retrier.web.operation_lines import operation_line
from retrier.web.page import show
from retrier.web.parts import Parts
from retrier.web.series import Slot
from retrier.web.streams import tell_held_in_all
from retrier.web.wording import (
    ago,
    duration,
    in_words,
    listed,
    number,
    plural,
    sentence,
    title_words,
)

_MOST_IN_TITLE = 100


def headline(found: Snapshot) -> str:
    """Return the sentence."""
    count, groups = found.unresolved, found.groups.get(CLASSIFIERS[0], ())
    if count == 0:
        return "Nothing is unresolved"
    failed = "1 message is unresolved" if count == 1 else f"{number(count)} messages are unresolved"
    if len(groups) == 1:
        return f"{failed}: {title_words(groups[0].title)[:_MOST_IN_TITLE]}"
    return f"{failed}, in {in_words(len(groups))} groups"


def lead(found: Snapshot) -> str:
    """Return the sentences below it: the newest failure, and what is being retried."""
    return " ".join(_sentences(found))


def _sentences(found: Snapshot) -> Iterator[str]:
    groups = found.groups.get(CLASSIFIERS[0], ())
    if groups:
        yield f"The newest failed {ago(groups[0].last, found.at)} on {groups[0].queues[0]}."
    elif sum(found.others.statuses.values()) == 0:
        yield "No message has failed yet: what arrives on an error queue is here within seconds."
    else:
        yield "Everything that failed is dealt with, or its retry is on its way."
    issued = found.others.statuses.get(FailedMessageStatus.RETRY_ISSUED, 0)
    left = sum(each.remaining for each in found.work.queue.operations)
    if left:
        yield f"{number(left)} {'is' if left == 1 else 'are'} being retried."
    elif issued:
        yield f"{number(issued)} {'retry has' if issued == 1 else 'retries have'} no outcome yet."
    yield from _of_what_waits(found)


def _of_what_waits(found: Snapshot) -> Iterator[str]:
    names = [each.key.name[:_MOST_IN_TITLE] for each in found.breakers.waiting]
    if names:
        yield f"Breakers hold retries to {listed(names)}."
    if found.held.messages:
        yield tell_held_in_all(found.held)


LATELY = timedelta(minutes=5)
"""Failures of this time are counted beside those that are unresolved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One number; `tone` is `bad`, `wait` or nothing, and never says what the text does not."""

    key: str
    name: str
    value: str
    note: str
    tone: str = ""


def tiles(found: Snapshot) -> Sequence[Tile]:
    """Return the numbers of the overview."""
    return [_unresolved(found), _retried(found), _pending(found), _resolved(found), _dead(found)]


def _unresolved(found: Snapshot) -> Tile:
    count = found.unresolved
    recent = sum(each.failed for each in found.minutes if found.at - each.at < LATELY)
    return Tile(
        key="unresolved",
        name="Unresolved",
        value=number(count),
        note=f"{plural(recent, 'failure')} in 5 minutes",
        tone="bad" if count else "",
    )


def _retried(found: Snapshot) -> Tile:
    alive = found.work.queue.operations
    left = sum(each.remaining for each in alive)
    ends = [
        end
        for each in alive
        if (end := estimate_end(each, found.at, found.work.queue.obstacles)) is not None
    ]
    if ends and left:
        note = f"about {duration(max(ends) - found.at)} left"
    else:
        note = f"{plural(len(alive), 'operation')} open" if alive else "no retry is open"
    return Tile(key="retried", name="Being retried", value=number(left), note=note)


def _pending(found: Snapshot) -> Tile:
    count, oldest = found.others.pending, found.others.oldest_pending
    note = "every retry has an outcome" if oldest is None else f"the oldest {ago(oldest, found.at)}"
    return Tile(key="pending", name="Pending retries", value=number(count), note=note)


def _resolved(found: Snapshot) -> Tile:
    by = found.others.resolved_lately
    count = sum(by.values())
    confirmed = by.get(Resolution.CONFIRMED, 0)
    # No share: what came back after its retry is not among those that are resolved.
    note = f"{number(confirmed)} of them confirmed" if count else "in the last 24 hours"
    return Tile(key="resolved", name="Resolved in 24 hours", value=number(count), note=note)


def _dead(found: Snapshot) -> Tile:
    scheduled = found.scheduled
    if found.dead or scheduled:
        note = f"{number(scheduled)} scheduled"
        tone = "bad" if found.dead else ""
        return Tile(key="dead", name="Dead", value=number(found.dead), note=note, tone=tone)
    archived = found.others.statuses.get(FailedMessageStatus.ARCHIVED, 0)
    return Tile(key="archived", name="Archived", value=number(archived), note="set aside")


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
    tone and its x. Raises WrongField.
    """
    name = choose(named, "span", SPANS) or next(iter(SPANS))
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


MOST_GROUPS = 10
MOST_QUEUES = 10


def _notes(found: Snapshot, trouble: Trouble | None) -> Iterator[tuple[str, ...]]:
    """Yield what is wrong with the service itself: its text, and its tone."""
    if trouble is not None:
        yield f"The counts are old. {sentence(trouble.reason)}", "bad"
    is_held = found.work.processor is not None and found.work.processor.is_held
    work = find_work(found.work.queue, is_held=is_held)
    if work.waits_for in (WaitingFor.PROCESSOR, WaitingFor.BROKER) and work.why is not None:
        yield f"Retries wait: {sentence(work.why)}", "bad"


router = APIRouter()


@router.get("/")
def get_overview(request: Request, parts: Parts, span: str = "") -> Response:
    """Show what is the matter."""
    found, by = parts.counts.snapshot(), CLASSIFIERS[0]
    groups, queue = GroupList(parts.db, found, by), found.work.queue
    return show(
        request,
        "overview.html",
        current="/",
        headline=headline(found),
        lead=lead(found),
        unresolved=found.unresolved,
        needs=needs(found),
        tiles=tiles(found),
        notes=_notes(found, parts.counts.trouble),
        operations=[
            operation_line(each, found.at, schedule=queue.schedule, obstacles=queue.obstacles)
            for each in queue.operations
            if each.remaining or not each.is_standing
        ],
        plot=plot(found, span),
        groups=groups.newest(MOST_GROUPS),
        groups_in_all=len(groups),
        groups_counted=plural(len(found.groups.get(by, ())), "group"),
        live_rows=group_prefix(by),
        queues=sorted(found.queues, key=lambda each: -each.count)[:MOST_QUEUES],
        counted_at=found.at,
    )
