"""Archive operations: archive, unarchive and resolve of many messages, and what can be undone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from retrier.domain.archive_operation import Act, ArchiveOperation, ArchiveOperationState
from retrier.domain.selection import chosen_parts
from retrier.web.views.event_lines import EventLine
from retrier.web.views.facts import Fact, time_facts
from retrier.web.views.pages import Listing
from retrier.web.wording import number, plural, sentence

_DONE = {Act.ARCHIVE: "archived", Act.UNARCHIVE: "unarchived", Act.RESOLVE: "resolved"}
SHOWN_REFUSED = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLine:
    """One archive operation; `undo` is where a form takes it back, if it archived something."""

    operation_id: str
    title: str
    requested_by: str
    why: str | None
    state: str
    tone: str
    text: str
    settled: int
    total: int
    is_over: bool
    undo: str | None
    undo_of: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveList:
    """One page of all archive operations."""

    listing: Listing[ArchiveLine]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePage:
    """One archive operation, why it left some messages as they were, and what was logged of it."""

    line: ArchiveLine
    asked: Sequence[Fact]
    progress: Sequence[Fact]
    skipped_because: Mapping[str, int]
    refused: Sequence[tuple[str, str]]
    events: Sequence[EventLine]
    archived_link: str | None


def archive_line(shown: ArchiveOperation) -> ArchiveLine:
    """Return an archive operation as a line."""
    over = shown.state is ArchiveOperationState.COMPLETED
    archived = shown.act is Act.ARCHIVE and shown.done > 0
    return ArchiveLine(
        operation_id=shown.operation_id,
        title=shown.originator[:1].upper() + shown.originator[1:],
        requested_by=shown.requested_by,
        why=shown.why,
        state=shown.state.value,
        tone="good" if over and shown.done else "",
        text=tell_archive(shown),
        settled=shown.done + shown.skipped,
        total=shown.total,
        is_over=over,
        undo=f"/archive_operations/{shown.operation_id}/undo" if archived else None,
        undo_of=shown.undo_of,
        created_at=shown.created_at,
    )


def archive_page(
    shown: ArchiveOperation, refused: Mapping[str, str], events: Sequence[EventLine]
) -> ArchivePage:
    """Return the page of an archive operation."""
    line = archive_line(shown)
    return ArchivePage(
        line=line,
        asked=list(_asked(shown)),
        progress=list(_progress(shown)),
        skipped_because=shown.skipped_because,
        refused=list(refused.items())[:SHOWN_REFUSED],
        events=events,
        archived_link=f"/archived?by={shown.operation_id}" if line.undo else None,
    )


def tell_archive(shown: ArchiveOperation) -> str:
    """Say in a few words how far it is; the same text replaces itself while it goes on."""
    words = [f"{number(shown.done)} of {plural(shown.total, 'message')} {_DONE[shown.act]}"]
    if shown.skipped:
        words.append(f"{number(shown.skipped)} left as they were")
    return " · ".join(words)


def _asked(shown: ArchiveOperation) -> Iterator[Fact]:
    yield Fact(name="Asked by", value=shown.requested_by)
    if shown.why:
        yield Fact(name="Because", value=shown.why)
    if shown.undo_of is not None:
        link = f"/archive_operations/{shown.undo_of}"
        yield Fact(name="Takes back", value="what this one archived", link=link)
    elif shown.selection.ids is not None:
        yield Fact(name="Of", value=f"{plural(shown.total, 'message')} named by id")
    else:
        parts = chosen_parts(shown.selection)
        words = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in parts.items())
        link = f"/messages?{urlencode(parts)}" if parts else "/messages"
        pending = "pending retries" if shown.selection.pending else "all messages"
        yield Fact(name="Of", value=words or pending, link=link)
    yield from time_facts(asked=shown.created_at)


def _progress(shown: ArchiveOperation) -> Iterator[Fact]:
    live = f"archive/{shown.operation_id}"
    yield Fact(name="Messages", value=number(shown.total))
    yield Fact(name=_DONE[shown.act].capitalize(), value=number(shown.done), live=f"{live}/changed")
    yield Fact(name="Left as they were", value=number(shown.skipped), live=f"{live}/skipped")
    if shown.reason:
        yield Fact(name="State", value=sentence(shown.reason))
    yield from time_facts(
        started=shown.started_at, ended=shown.completed_at, acknowledged=shown.acknowledged_at
    )
