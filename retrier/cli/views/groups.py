"""Failure groups as people read them."""

from collections.abc import Iterable

from retrier.cli.api_client import Json
from retrier.cli.printer import Column, Printer
from retrier.cli.texts import minute, short_id

_COLUMNS = (
    Column(title="id"),
    Column(title="unresolved", number=True),
    Column(title="last failure (UTC)"),
    Column(title="retry"),
    Column(title="title", flexible=True),
)


def show_groups(printer: Printer, items: Iterable[Json]) -> None:
    """Print one line per group."""
    printer.table(_COLUMNS, [_row(item) for item in items])


def _row(item: Json) -> tuple[object, ...]:
    last = minute(item["last"]) if "last" in item else ""
    return short_id(item["id"]), f"{item['count']:,}", last, _retry(item), item["title"]


def _retry(item: Json) -> str:
    status = item["operation_status"]
    if status == "None":
        return ""
    return f"{status.lower()} {item['operation_progress']:.0%}"
