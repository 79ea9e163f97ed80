"""Failed imports as people read them: nobody has understood them, so bytes are shown as bytes."""

from base64 import b64decode
from collections.abc import Iterable, Sequence

from retrier.cli.api_client import Json
from retrier.cli.dump import show_bytes, show_text
from retrier.cli.printer import Column, Printer, counted, minute, moment, one_line, short_id

_COLUMNS = (
    Column(title="id"),
    Column(title="state"),
    Column(title="received (UTC)"),
    Column(title="total bytes", number=True),
    Column(title="error queue", flexible=True),
    Column(title="reason", flexible=True),
)
_REASONS = (Column(title="count", number=True), Column(title="reason", flexible=True))
_REFUSED = (Column(title="id"), Column(title="reason", flexible=True))
_STATES = {"kept": "kept", "inDoubt": "in doubt"}
_LONGEST = 300
"""Characters of a header that are shown; --json has all of them."""


def show_imports(printer: Printer, items: Iterable[Json]) -> None:
    """Print one line per import."""
    printer.table(_COLUMNS, [_row(item) for item in items])


def show_import(printer: Printer, found: Json) -> None:
    """Print everything about one import, and the beginnings of its bytes."""
    printer.sheet(_facts(found))
    for title in ("properties", "headers"):
        if found[title]:
            printer.heading(title)
            printer.sheet({name: _cut(value) for name, value in found[title].items()})
    if "unreadable" in found:
        raw = b64decode(found["raw_properties"]["content"])
        show_bytes(printer, "properties as they came", raw, found["properties_size"])
    body = found["body"]
    if body["encoding"] == "utf-8":
        show_text(printer, body["content"], found["body_size"])
    else:
        show_bytes(printer, "body", b64decode(body["content"]), found["body_size"])


def show_read_again(printer: Printer, came_to: Json) -> None:
    """Print what imports became, and why others are imports still."""
    kept = [*came_to["kept"], *came_to["skipped"]]
    total = came_to["reimported"] + sum(each["count"] for each in kept)
    became = ", ".join(
        counted(came_to[name], noun)
        for name, noun in (
            ("failed_message", "failed message"),
            ("confirmation", "confirmation"),
            ("stored_before", "message stored already"),
            ("own_copy", "copy of the staging queue"),
        )
        if came_to[name]
    )
    printer.line(
        f"{came_to['reimported']:,} of {counted(total, 'failed import')} understood"
        f"{f': {became}' if became else ''}"
    )
    if kept:
        printer.heading("still failed imports")
        printer.table(_REASONS, [(f"{each['count']:,}", each["reason"]) for each in kept])


def show_refused(printer: Printer, refused: Sequence[Json]) -> None:
    """Print what was not done, and why."""
    if refused:
        printer.heading("left as they are")
        printer.table(_REFUSED, [(short_id(each["id"]), each["reason"]) for each in refused])


def _row(item: Json) -> tuple[object, ...]:
    return (
        short_id(item["id"]),
        _STATES.get(item["state"], item["state"]),
        minute(item["received_at"]),
        f"{item['properties_size'] + item['body_size']:,}",
        item["error_queue"],
        item["reason"],
    )


def _facts(found: Json) -> dict[str, object]:
    return {
        "id": found["id"],
        "state": _state(found),
        "error queue": found["error_queue"],
        "received": moment(found["received_at"]),
        "reason": found["reason"],
        "properties": _size(found["properties_size"], found.get("unreadable")),
        "body": counted(found["body_size"], "byte"),
    }


def _state(found: Json) -> str:
    if "send" not in found:
        return "kept"
    send = found["send"]
    since = moment(send["since"])
    return f"in doubt: perhaps sent to {send['to']}, since {since}, by {send['requested_by']}"


def _size(size: int, unreadable: str | None) -> str:
    return counted(size, "byte") + (f", not readable: {unreadable}" if unreadable else "")


def _cut(value: object) -> str:
    text = one_line(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
