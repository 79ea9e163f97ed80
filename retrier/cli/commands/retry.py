"""`retrier retry`: asks for a retry, and with --watch follows it to its end."""

from dataclasses import dataclass
from typing import Annotated, Any
from uuid import uuid4

import typer

from retrier.cli.api_client import IDEMPOTENCY_KEY, ApiClient, Json
from retrier.cli.command import ExitCode, command, make_app, tools_of
from retrier.cli.options import Service, User, name_user
from retrier.cli.printer import Column, Printer, counted, short_id
from retrier.cli.progress import exit_code_of, watch_operation, with_pending
from retrier.cli.retry_target import Matching, Named, RetryTarget, Target
from retrier.cli.views.messages import show_messages
from retrier.cli.views.operations import show_outcome, show_skipped
from retrier.errors import RequestRefused

SHOWN = 5
"""Newest messages that a dry run shows."""

_SKIPPED = (Column(title="id"), Column(title="would be skipped", flexible=True))


def look_ahead(api: ApiClient, target: Target) -> dict[str, Any]:
    """Return what would be retried and what would be skipped; changes nothing."""
    match target:
        case Named():
            return _look_at_named(api, target)
        case Matching():
            return _look_at_matching(api, target)


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


def _look_at_matching(api: ApiClient, target: Matching) -> dict[str, Any]:
    page = api.page(
        "errors",
        **dict(target.filter),
        status="unresolved",
        sort="time_of_failure",
        per_page=SHOWN,
    )
    return {"what": target.words, "total": page.total, "newest": list(page.items)}


def _look_at_named(api: ApiClient, target: Named) -> dict[str, Any]:
    reasons = {each: _why_not(api, each) for each in target.ids}
    skipped = [{"id": each, "reason": why} for each, why in reasons.items() if why is not None]
    return {"what": target.words, "total": len(target.ids) - len(skipped), "skipped": skipped}


def _why_not(api: ApiClient, message_id: str) -> str | None:
    """Return the reason why the service would skip a message; None if it would not."""
    try:
        found = api.find("errors", message_id)
    except RequestRefused as error:
        return str(error)
    if found["status"] == "retryIssued":
        return "its retry was issued already and has neither succeeded nor failed yet"
    if found["status"] != "unresolved":
        return f"it is {found['status']}"
    return "another retry has claimed it already" if "claim" in found else None


app = make_app("Send failed messages back to where they failed.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Who asks, and under which key."""

    user: User = ""
    idempotency_key: Annotated[
        str | None,
        typer.Option(
            "--idempotency-key",
            metavar="KEY",
            help="Makes it safe to run the command again: the same key asks once.",
        ),
    ] = None

    def headers(self) -> dict[bytes, bytes]:
        """Return the headers of the request."""
        key = str(uuid4()) if self.idempotency_key is None else self.idempotency_key
        if not (key and key.isascii() and key.isprintable()):
            raise typer.BadParameter("--idempotency-key: letters, digits and the like only.")
        return {IDEMPOTENCY_KEY: key.encode(), **name_user(self.user)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOptions:
    """Options of what is done and printed."""

    watch: Annotated[
        bool, typer.Option("--watch", help="Follow it to its end; exit code 1 if not all went.")
    ] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be retried; change nothing.")
    ] = False


@app.command(
    epilog="""
    \b
    Examples:
      retrier retry 3f2b91c0 77aa01de
      retrier retry --group 5a1d0b7e --watch
      retrier retry --queue orders --dry-run
      retrier errors list --message-type Shop.PlaceOrder --ids | retrier retry -
    """
)
@command
def retry(
    ctx: typer.Context,
    chosen: RetryTarget,
    options: RetryOptions,
    asking: Asking,
    service: Service,
) -> None:
    """Send failed messages back to where they failed.

    Ids name single messages; a queue, an endpoint, a group or --all mean every unresolved message
    there. Messages that fail after the request are not retried by it, and a message that another
    retry has claimed is skipped.
    """
    chosen.check()
    headers = asking.headers()
    tools = tools_of(ctx)
    with service.open(ctx) as api:
        target = chosen.resolve(api)
        if options.dry_run:
            _preview(tools.printer, api, target, as_json=service.as_json)
            return
        accepted = api.ask(target.path, target.content, headers)
        if not options.watch:
            _print_accepted(tools.printer, accepted, as_json=service.as_json)
            raise typer.Exit(_exit_code_of_asking(accepted))
        found = with_pending(api, watch_operation(tools, api, accepted["operation_id"]))
    _print_outcome(tools.printer, found, as_json=service.as_json)
    raise typer.Exit(exit_code_of(found))


def _preview(printer: Printer, api: ApiClient, target: Target, *, as_json: bool) -> None:
    found = look_ahead(api, target)
    if as_json:
        printer.document({"dry_run": True, **found})
    else:
        show_preview(printer, found)


def _print_accepted(printer: Printer, accepted: Json, *, as_json: bool) -> None:
    if as_json:
        printer.document(accepted)
        return
    operation = short_id(accepted["operation_id"])
    left = _count_left(accepted)
    printer.line(f"asked for a retry of {counted(left, 'message')}: operation {operation}")
    show_skipped(printer, accepted)
    if left:
        printer.note(f"Follow it with: retrier operations show {operation} --watch")
    elif accepted["total"]:
        printer.note("There is nothing to retry: all that was named is skipped.")
    else:
        printer.note("There is nothing to retry: no unresolved message matches.")


def _count_left(accepted: Json) -> int:
    return int(accepted["total"]) - int(accepted.get("skipped", 0))


def _exit_code_of_asking(accepted: Json) -> ExitCode:
    """Return 1 where messages were named and none of them can be retried."""
    nothing_left = accepted["total"] and not _count_left(accepted)
    return ExitCode.REFUSED if nothing_left else ExitCode.DONE


def _print_outcome(printer: Printer, found: Json, *, as_json: bool) -> None:
    if as_json:
        printer.document(found)
    else:
        show_outcome(printer, found)
