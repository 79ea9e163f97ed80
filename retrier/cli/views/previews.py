"""What a retry would do, for people."""

from collections.abc import Mapping
from types import MappingProxyType

from retrier.cli.api_client import Json
from retrier.cli.plans import note_plan
from retrier.cli.printer import Column, Printer, counted
from retrier.cli.views.messages import show_messages
from retrier.cli.views.operations import show_refused

_BREAKDOWNS: Mapping[str, str] = MappingProxyType(
    {
        "groups": "group",
        "queues": "queue",
        "destinations": "destination",
        "ages": "last failed",
        "attempts": "attempts",
    }
)
_OTHERS = "all others"
_WOULD_BE_SKIPPED = (Column(title="id"), Column(title="would be skipped", flexible=True))


def show_preview(printer: Printer, what: str, found: Json) -> None:
    """Print how many messages would be retried, by what, and what would be skipped."""
    printer.line(f"would retry {counted(found['would_retry'], 'message')}: {what}")
    for name, title in _BREAKDOWNS.items():
        _show_lines(printer, title, found[name])
    if found["samples"]:
        printer.heading("the first of them")
        show_messages(printer, found["samples"])
    show_refused(printer, found)
    named = found.get("skipped_messages", [])
    if named:
        printer.table(_WOULD_BE_SKIPPED, [(each["id"], each["reason"]) for each in named])
    for warning in found["warnings"]:
        printer.note(warning["text"])
    note_plan(printer, found)


def _show_lines(printer: Printer, title: str, breakdown: Json) -> None:
    """Print a breakdown that says more than one line would."""
    lines = [(each["count"], each["name"]) for each in breakdown["lines"]]
    if breakdown["others"]:
        lines.append((breakdown["others"], _OTHERS))
    if len(lines) > 1:
        columns = (Column(title="messages", number=True), Column(title=title, flexible=True))
        printer.heading(f"by {title}")
        printer.table(columns, lines)
