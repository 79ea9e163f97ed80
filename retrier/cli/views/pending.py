"""Pending retries as a table."""

from collections.abc import Iterable

from retrier.cli.api_client import Json
from retrier.cli.printer import Column, Printer, duration, minute, short_id

_COLUMNS = (
    Column(title="id"),
    Column(title="waits"),
    Column(title="sent (UTC)"),
    Column(title="sent to", flexible=True),
    Column(title="operation", extra=True),
    Column(title="message type", flexible=True),
)


def show_pending(printer: Printer, items: Iterable[Json]) -> None:
    """Print one line per pending retry."""
    printer.table(_COLUMNS, [_row(item) for item in items])


def _row(item: Json) -> tuple[object, ...]:
    return (
        short_id(item["id"]),
        duration(item["waiting_seconds"]),
        minute(item["claim"]["forwarded_at"]),
        item["sent_to"],
        short_id(item["claim"]["operation_id"]),
        item.get("message_type"),
    )
