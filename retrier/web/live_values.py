"""The texts that open pages replace in place, by key. Templates name the same keys."""

from collections.abc import Iterator

from fastapi import APIRouter, Request, Response
from starlette.types import Send

from retrier.domain.classifiers import CLASSIFIERS
from retrier.http.live_answer import LiveAnswer
from retrier.web.archives import archive_line
from retrier.web.breakers import breaker_rows
from retrier.web.counts import Snapshot, Trouble
from retrier.web.groups import group_prefix
from retrier.web.needs import needs
from retrier.web.operation_lines import OperationLine, operation_line
from retrier.web.overview import headline, lead, tiles
from retrier.web.parts import Parts
from retrier.web.streams import message_link, row_key, stream_row, tell_held_in_all
from retrier.web.wording import iso, number, plural, sentence, visible

MOST_GROUPS = 200
"""Groups of a classifier whose counts are sent; lists show no more."""


def live_values(found: Snapshot, trouble: Trouble | None) -> dict[str, str]:
    """Return all texts of a snapshot."""
    return {
        "headline": headline(found),
        "lead": lead(found),
        "groups/counted": plural(len(found.groups.get(CLASSIFIERS[0], ())), "group"),
        "counted-at": iso(found.at),
        "trouble": "" if trouble is None else sentence(trouble.reason),
        "failures": str(found.up_to),
        "events": " ".join(map(str, found.told)),
        "imports": str(found.others.imports),
        **{key: number(count) for key, count in found.waiting.items()},
        **dict(_of_needs(found)),
        **dict(_of_tiles(found)),
        **dict(_of_groups(found)),
        **dict(_of_operations(found)),
        **dict(_of_archives(found)),
        **dict(_of_breakers(found)),
        **dict(_of_streams(found)),
        "held": str(found.held.messages),
        "held/text": tell_held_in_all(found.held),
        **dict(_of_messages(found)),
    }


def _of_tiles(found: Snapshot) -> Iterator[tuple[str, str]]:
    for tile in tiles(found):
        yield f"tile/{tile.key}", tile.value
        yield f"tile/{tile.key}/note", tile.note


def _of_needs(found: Snapshot) -> Iterator[tuple[str, str]]:
    for need in needs(found):
        yield f"{need.live}/count", number(need.count)
        yield f"{need.live}/words", need.words


def _of_groups(found: Snapshot) -> Iterator[tuple[str, str]]:
    for classifier, groups in found.groups.items():
        for group in groups[:MOST_GROUPS]:
            key = f"{group_prefix(classifier)}{group.key}"
            yield f"{key}/count", number(group.count)
            yield f"{key}/last", iso(group.last)
    for queue in found.queues[:MOST_GROUPS]:
        yield f"queue/{queue.key}/count", number(queue.count)
        yield f"queue/{queue.key}/last", iso(queue.last)


def _of_operations(found: Snapshot) -> Iterator[tuple[str, str]]:
    for operation in found.operations.values():
        queue = found.work.queue
        line = operation_line(operation, found.at, queue.schedule, queue.obstacles)
        yield from _of_operation(line)
        for name in ("forwarded", "skipped", "failed", "remaining"):
            count = number(getattr(operation, name))
            yield f"operation/{operation.operation_id}/{name}", count
        for outcome, ended in operation.outcomes_shown.items():
            yield f"operation/{operation.operation_id}/{outcome}", number(ended)


def _of_archives(found: Snapshot) -> Iterator[tuple[str, str]]:
    for operation in found.archives.values():
        key, line = f"archive/{operation.operation_id}", archive_line(operation)
        yield f"{key}/done", str(line.settled)
        yield f"{key}/total", str(line.total)
        yield f"{key}/state", line.state
        yield f"{key}/text", line.text
        yield f"{key}/changed", number(operation.done)
        yield f"{key}/skipped", number(operation.skipped)


def _of_breakers(found: Snapshot) -> Iterator[tuple[str, str]]:
    for row in breaker_rows(found)[:MOST_GROUPS]:
        yield f"{row.live}/count", number(row.waiting)
        yield f"{row.live}/state", row.state
        yield f"{row.live}/tone", row.tone
        yield f"{row.live}/words", visible(row.words)
        yield f"{row.live}/failed", row.failed
        yield f"{row.live}/since", iso(row.since)
        yield f"{row.live}/until", row.until
        yield f"{row.live}/until-at", "" if row.until_at is None else iso(row.until_at)
        yield f"{row.live}/held", "" if row.is_closed else "1"


def _of_streams(found: Snapshot) -> Iterator[tuple[str, str]]:
    for listed in found.streams.listed.values():
        row = stream_row(listed)
        yield f"{row.live}/open", number(row.open)
        yield f"{row.live}/held", number(row.held)
        yield f"{row.live}/waits", visible(row.waits_for)
        yield f"{row.live}/head", message_link(row.head_id)
        yield f"{row.live}/since", iso(row.since)
        yield f"{row.live}/released", row.released
    for stream in found.streams.ended:
        yield f"{row_key(stream)}/open", "0"
        yield f"{row_key(stream)}/held", "0"
        yield f"{row_key(stream)}/released", ""


def _of_messages(found: Snapshot) -> Iterator[tuple[str, str]]:
    for unique_id, mark in found.messages.items():
        yield f"message/{unique_id}", mark.state
        yield f"message/{unique_id}/failures", str(mark.failures)


def _of_operation(line: OperationLine) -> Iterator[tuple[str, str]]:
    key = f"operation/{line.operation_id}"
    yield f"{key}/done", str(line.done)
    yield f"{key}/total", str(line.total)
    yield f"{key}/state", line.state
    yield f"{key}/text", line.text
    yield f"{key}/paused", "1" if line.is_paused else ""
    yield f"{key}/goes", "" if line.is_over else "1"
    yield f"{key}/waits", line.waits or ""


router = APIRouter(prefix="/events")


@router.get("/page", response_class=Response)
async def follow_page(
    request: Request, parts: Parts, since: str = "", message: str = ""
) -> Response:
    """Send what changed since a version, and then what changes; the answer does not end.

    `message` is the id of the message whose page it is.
    """
    if parts.access.seen is not None:
        # What is told here is about all queues. A browser does not ask again after this answer.
        return Response(status_code=204)

    def note_reader() -> None:
        parts.counts.note_reader_of(message)

    note_reader()
    known = request.headers.get("last-event-id") or since

    async def write(_tab: None, send: Send) -> None:
        await parts.live.follow(known, send, note_reader)

    return LiveAnswer(parts.live.joined, write)
