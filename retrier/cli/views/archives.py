"""Archive operations, and what an act would change, as tables and sheets."""

from collections.abc import Iterable

from retrier.cli.api_client import Json
from retrier.cli.plans import note_plan
from retrier.cli.printer import Column, Printer, counted, minute, moment, short_id
from retrier.cli.views.operations import show_refused, show_skipped

_OPERATIONS = (
    Column(title="id"),
    Column(title="act"),
    Column(title="state"),
    Column(title="asked (UTC)", extra=True),
    Column(title="total", number=True),
    Column(title="done", number=True),
    Column(title="skipped", number=True),
    Column(title="by", flexible=True, extra=True),
    Column(title="what", flexible=True),
)
WORDS = {
    "archive": "archived",
    "unarchive": "unarchived",
    "resolve": "resolved",
}


def show_archive_operations(printer: Printer, items: Iterable[Json]) -> None:
    """Print one line per operation."""
    printer.table(_OPERATIONS, [_line(item) for item in items])


def show_archive_operation(printer: Printer, found: Json) -> None:
    """Print everything about one operation."""
    names = ("act", "state", "why", "reason", "total", "done", "skipped", "remaining", "undo_of")
    printer.sheet(
        {"id": found["id"], "what": found["originator"], "asked by": found["requested_by"]}
        | {name.replace("_", " "): found.get(name) for name in names}
        | _times(found)
    )
    show_refused(printer, {"skipped": found["skipped_because"]})
    show_skipped(printer, found)


def show_act(printer: Printer, act: str, done: Json) -> None:
    """Print what came of a request, or how to follow it."""
    operation = short_id(done["operation_id"])
    if done["state"] == "completed":
        printer.line(f"{WORDS[act]}: {counted(done[WORDS[act]], 'message')}, operation {operation}")
        show_refused(printer, done)
        return
    total = counted(done["total"], "message")
    printer.line(f"asked to {act} {total}: operation {operation}")
    printer.note(f"Follow it with: retrier archive-operations show {operation} --watch")


def changed_none(done: Json) -> bool:
    """Say whether a request is over and has changed none of its messages."""
    skipped = sum(int(each["count"]) for each in done["skipped"])
    return bool(done["state"] == "completed" and done["total"] and skipped == done["total"])


def show_archive_preview(printer: Printer, act: str, what: str, found: Json) -> None:
    """Print what an act would change and what it would leave as it is."""
    printer.line(f"would {act} {counted(found['total'], 'message')}: {what}")
    show_refused(printer, found)
    note_plan(printer, found)


def _line(item: Json) -> tuple[object, ...]:
    counts = (f"{item[name]:,}" for name in ("total", "done", "skipped"))
    asked = (item["requested_by"], item["originator"])
    state = (item["act"], item["state"], minute(item["created_at"]))
    return (short_id(item["id"]), *state, *counts, *asked)


def _times(found: Json) -> dict[str, str]:
    names = {"asked": "created_at", "started": "started_at", "completed": "completed_at"}
    return {shown: moment(found[name]) for shown, name in names.items() if name in found}
