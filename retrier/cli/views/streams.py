"""Streams, and the messages of one, as tables."""

from collections.abc import Iterable

from retrier.cli.api_client import Json
from retrier.cli.printer import Column, Printer, minute, short_id

_STREAMS = (
    Column(title="stream", flexible=True),
    Column(title="queue", flexible=True),
    Column(title="open"),
    Column(title="held"),
    Column(title="head"),
    Column(title="its state"),
)
_MESSAGES = (
    Column(title="id"),
    Column(title="status"),
    Column(title="rule"),
    Column(title="failed (UTC)"),
    Column(title="held", flexible=True),
)


def show_streams(printer: Printer, items: Iterable[Json]) -> None:
    """Print one line per stream."""
    printer.table(_STREAMS, [_stream(item) for item in items])


def show_stream(printer: Printer, found: Json) -> None:
    """Print a stream and its open messages in their order."""
    printer.sheet(
        {
            "stream": found["id"],
            "queue": found["queue"],
            "open": found["open"],
            "held": found["held"],
            "head": f"{short_id(found['head']['id'])}: {found['head']['state']}",
        }
    )
    printer.table(_MESSAGES, [_message(item) for item in found["messages"]])


def _stream(item: Json) -> tuple[object, ...]:
    head = item["head"]
    state = head["disposition"] if head["status"] == "unresolved" else "retry issued"
    return (
        item["id"],
        item["queue"],
        f"{item['open']:,}",
        f"{item['held']:,}",
        short_id(head["id"]),
        state,
    )


def _message(item: Json) -> tuple[object, ...]:
    held = item.get("held_because") or ("released" if item["released"] else "no")
    status = "retry issued" if item["status"] == "retryIssued" else item["disposition"]
    return (
        short_id(item["id"]),
        status,
        item.get("rule", "none"),
        minute(item["last_failure"]),
        held,
    )
