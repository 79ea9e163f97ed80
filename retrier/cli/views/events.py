"""Events, and the history of a message, as tables and lines."""

from collections.abc import Iterable

from retrier.cli.api_client import Json
from retrier.cli.printer import Column, Printer, moment, one_line

_EVENTS = (
    Column(title="at (UTC)"),
    Column(title="kind"),
    Column(title="by", flexible=True, extra=True),
    Column(title="what", flexible=True),
)
_ATTEMPTS = (
    Column(title="failed (UTC)"),
    Column(title="queue", flexible=True),
    Column(title="retry id", extra=True),
    Column(title="redelivered", extra=True),
    Column(title="error", flexible=True),
)


def show_events(printer: Printer, items: Iterable[Json]) -> None:
    """Print one line per event."""
    printer.table(_EVENTS, [_event(item) for item in items])


def show_event(printer: Printer, item: Json) -> None:
    """Print one event as it comes: nobody knows how wide the columns will have to be."""
    at, kind, who, text = _event(item)
    printer.line(f"{at}  {kind}: {text} ({who})")


def show_history(printer: Printer, items: Iterable[Json]) -> None:
    """Print one line per thing that happened."""
    rows = [(moment(each["at"]), each["kind"], each.get("who"), each["text"]) for each in items]
    printer.table(_EVENTS, rows)


def show_attempts(printer: Printer, items: Iterable[Json]) -> None:
    """Print one line per failure."""
    printer.table(_ATTEMPTS, [_attempt(item) for item in items])


def _event(item: Json) -> tuple[str, str, str, str]:
    return (
        moment(item["raised_at"]),
        one_line(item["kind"]),
        one_line(item["who"]),
        one_line(item["description"]),
    )


def _attempt(item: Json) -> tuple[object, ...]:
    details = item["failure_details"]
    exception = details["exception"]
    parts = (exception.get("exception_type"), exception["message"] or item.get("failure_reason"))
    return (
        moment(item["attempted_at"]),
        details["address_of_failing_endpoint"],
        item.get("retry_id"),
        "yes" if item["redelivered"] else "",
        ": ".join(part for part in parts if part),
    )
