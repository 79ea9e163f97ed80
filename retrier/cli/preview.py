"""What a retry would come to, told without asking for it."""

from typing import Any

from retrier.cli.api_client import ApiClient
from retrier.cli.asked import Asked, Matching, Named
from retrier.cli.printer import Column, Printer
from retrier.cli.texts import counted
from retrier.cli.views.messages import show_messages
from retrier.errors import RequestRefused

SHOWN = 5
"""So many of the newest messages are shown."""

_SKIPPED = (Column(title="id"), Column(title="would be skipped", flexible=True))


def look_ahead(api: ApiClient, asked: Asked) -> dict[str, Any]:
    """Return what would be retried and skipped; only reads."""
    match asked:
        case Named():
            return _look_at_named(api, asked)
        case Matching():
            return _look_at_matching(api, asked)


def show_preview(printer: Printer, found: dict[str, Any]) -> None:
    """Print what would be retried and skipped."""
    printer.line(f"would retry {counted(found['total'], 'message')}: {found['what']}")
    newest = found.get("newest", [])
    if newest:
        printer.heading("newest")
        show_messages(printer, newest)
    skipped = found.get("skipped", [])
    if skipped:
        printer.heading("skipped")
        printer.table(_SKIPPED, [(each["id"], each["reason"]) for each in skipped])
    printer.note("nothing was asked for, nothing has changed")


def _look_at_matching(api: ApiClient, asked: Matching) -> dict[str, Any]:
    page = api.page(
        "errors",
        **dict(asked.filter),
        status="unresolved",
        sort="time_of_failure",
        per_page=SHOWN,
    )
    return {"what": asked.words, "total": page.total, "newest": list(page.items)}


def _look_at_named(api: ApiClient, asked: Named) -> dict[str, Any]:
    reasons = {each: _why_not(api, each) for each in asked.ids}
    skipped = [{"id": each, "reason": why} for each, why in reasons.items() if why is not None]
    return {"what": asked.words, "total": len(asked.ids) - len(skipped), "skipped": skipped}


def _why_not(api: ApiClient, message_id: str) -> str | None:
    """Return the reason for which the service would skip a message."""
    try:
        found = api.find("errors", message_id)
    except RequestRefused as error:
        return str(error)
    if found["status"] == "retryIssued":
        return "its retry was issued already and has neither succeeded nor failed yet"
    if found["status"] != "unresolved":
        return f"it is {found['status']}"
    return "another retry has claimed it already" if "claim" in found else None
