"""The overview: what is the matter, what is being done about it, and what waits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from retrier.domain.processor_work import Awaited, find_work
from retrier.domain.retry_operation import STANDING_OPERATION
from retrier.web.counts import Trouble
from retrier.web.snapshot import CountLine, Snapshot
from retrier.web.views.groups import GroupRow
from retrier.web.views.headline import headline, lead
from retrier.web.views.operations import OperationLine, operation_line
from retrier.web.views.plot import Plot, plot
from retrier.web.views.streams import tell_held_in_all
from retrier.web.views.tiles import Tile, tiles
from retrier.web.wording import plural, sentence

MOST_GROUPS = 10
MOST_QUEUES = 10
MOST_BREAKERS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something that a person should know; `tone` is `bad` or `wait`."""

    text: str
    tone: str = "wait"
    link: str | None = None
    link_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """All that the overview shows."""

    headline: str
    lead: str
    unresolved: int
    is_well: bool
    tiles: Sequence[Tile]
    notes: Sequence[Note]
    operations: Sequence[OperationLine]
    plot: Plot
    groups: Sequence[GroupRow]
    groups_in_all: int
    live_rows: str
    queues: Sequence[CountLine]
    queues_in_all: int
    counted_at: datetime


def overview(
    found: Snapshot, groups: Sequence[GroupRow], trouble: Trouble | None, span: str, live_rows: str
) -> Overview:
    """Return the overview of a snapshot, with its groups as rows."""
    queue = found.work.queue
    alive = [each for each in queue.operations if each.remaining or _is_asked(each)]
    return Overview(
        headline=headline(found),
        lead=lead(found),
        unresolved=found.unresolved,
        is_well=found.unresolved == 0 and trouble is None,
        tiles=tiles(found),
        notes=list(_notes(found, trouble)),
        operations=[
            operation_line(each, found.at, schedule=queue.schedule, obstacles=queue.obstacles)
            for each in alive
        ],
        plot=plot(found.minutes, found.at, span),
        groups=groups[:MOST_GROUPS],
        groups_in_all=len(groups),
        live_rows=live_rows,
        queues=sorted(found.queues, key=lambda each: -each.count)[:MOST_QUEUES],
        queues_in_all=len(found.queues),
        counted_at=found.at,
    )


def _is_asked(operation: object) -> bool:
    return getattr(operation, "operation_id", None) != STANDING_OPERATION


def _notes(found: Snapshot, trouble: Trouble | None) -> Iterator[Note]:
    if trouble is not None:
        yield Note(text=f"The counts are old. {sentence(trouble.reason)}", tone="bad")
    is_held = found.work.processor is not None and found.work.processor.is_held
    work = find_work(found.work.queue, is_held=is_held)
    if work.waits_for in (Awaited.PROCESSOR, Awaited.BROKER) and work.why is not None:
        yield Note(text=f"Retries wait: {sentence(work.why)}", tone="bad")
    yield from _what_waits(found)
    if found.others.imports:
        count = plural(found.others.imports, "message")
        yield Note(
            text=f"{count} could not be read: failed imports wait for a person.",
            link="/imports",
            link_name="Failed imports",
        )


def _what_waits(found: Snapshot) -> Iterator[Note]:
    """Yield why messages wait: a breaker each, and all streams together."""
    waiting = found.breakers.waiting
    for why in list(waiting.values())[:MOST_BREAKERS]:
        yield Note(text=sentence(why), link="/breakers", link_name="Breakers")
    if len(waiting) > MOST_BREAKERS:
        more = plural(len(waiting) - MOST_BREAKERS, "more breaker")
        yield Note(text=f"Messages wait for {more}.", link="/breakers", link_name="Breakers")
    if found.held.messages:
        yield Note(text=tell_held_in_all(found.held), link="/streams?held=1", link_name="Streams")
