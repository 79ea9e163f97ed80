"""Pending retries as a table."""

from collections.abc import Iterable

from retrier.cli.api_client import Json
from retrier.cli.printer import Column, Printer, duration, minute, short_id
from retrier.cli.views.messages import name_of, title_of_names

_COLUMNS = (
    Column(title="id"),
    Column(title="waits"),
    Column(title="sent (UTC)"),
    Column(title="sent to", flexible=True),
    Column(title="operation", extra=True),
)


def show_pending(printer: Printer, items: Iterable[Json]) -> None:
    """Print one line per pending retry."""
    listed = list(items)
    named = Column(title=title_of_names(listed), flexible=True)
    printer.table((*_COLUMNS, named), [_row(item) for item in listed])


def _row(item: Json) -> tuple[object, ...]:
    return (
        short_id(item["id"]),
        duration(item["waiting_seconds"]),
        minute(item["claim"]["forwarded_at"]),
        item["sent_to"],
        short_id(item["claim"]["operation_id"]),
        name_of(item),
    )
