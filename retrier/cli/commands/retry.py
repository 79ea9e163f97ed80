"""`retrier retry`: asks for a retry, and with --watch follows it to its end."""

from dataclasses import dataclass
from typing import Annotated
from uuid import uuid4

import typer

from retrier.cli.api_client import IDEMPOTENCY_KEY, ApiClient, Json
from retrier.cli.command import ExitCode, command, make_app, tools_of
from retrier.cli.ids import note_imports_among
from retrier.cli.options import Service, User, name_user
from retrier.cli.printer import Printer, counted, short_id
from retrier.cli.progress import exit_code_of, watch_operation, with_pending
from retrier.cli.selection_options import SelectionOptions, describe
from retrier.cli.term_options import TermOptions
from retrier.cli.views.operations import note_dead, show_outcome, show_skipped
from retrier.cli.views.previews import show_preview

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
      retrier retry --exception-type Shop.OutOfStock --limit 500 --rate 50 --canary 20
      retrier errors list --message-type Shop.PlaceOrder --ids | retrier retry -
    """
)
@command
def retry(
    ctx: typer.Context,
    chosen: SelectionOptions,
    terms: TermOptions,
    options: RetryOptions,
    asking: Asking,
    service: Service,
) -> None:
    """Send failed messages back to where they failed.

    Ids name single messages; conditions mean every unresolved message that meets all of them, and
    --all means every one. Messages that fail after the request are not retried by it, and a message
    that another retry has claimed is skipped.
    """
    chosen.check()
    terms.check()
    headers = asking.headers()
    tools = tools_of(ctx)
    with service.open(ctx) as api:
        body = {"selection": chosen.selection(api), **terms.given()}
        if options.dry_run:
            _preview(tools.printer, api, body, as_json=service.as_json)
            return
        accepted = api.ask(("operations",), body, headers)
        if not service.as_json:
            note_imports_among(tools.printer, api, accepted)
        if not options.watch:
            _print_accepted(tools.printer, accepted, body["selection"], as_json=service.as_json)
            raise typer.Exit(_exit_code_of_asking(accepted))
        found = with_pending(api, watch_operation(tools, api, accepted["operation_id"]))
    _print_outcome(tools.printer, found, as_json=service.as_json)
    raise typer.Exit(exit_code_of(found))


def _preview(printer: Printer, api: ApiClient, body: Json, *, as_json: bool) -> None:
    found = api.look(("operations", "preview"), body)
    what = describe(body["selection"])
    if as_json:
        printer.document({"dry_run": True, "what": what, **found})
    else:
        show_preview(printer, what, found)
        note_dead(printer, found, body["selection"])


def _print_accepted(printer: Printer, accepted: Json, selection: Json, *, as_json: bool) -> None:
    if as_json:
        printer.document(accepted)
        return
    if not accepted["total"]:
        printer.line("There is nothing to retry: no unresolved message matches.")
        note_dead(printer, accepted, selection)
        return
    operation = short_id(accepted["operation_id"])
    left = _count_left(accepted)
    printer.line(f"asked for a retry of {counted(left, 'message')}: operation {operation}")
    show_skipped(printer, accepted)
    note_dead(printer, accepted, selection)
    if left:
        printer.note(f"Follow it with: retrier operations show {operation} --watch")
    else:
        printer.note("There is nothing to retry: all that was named is skipped.")


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
