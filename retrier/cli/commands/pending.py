"""`retrier pending`: the retries whose outcome has not arrived: listed, retried again, resolved."""

import sys

import typer

from retrier.cli.api_client import ApiClient, Json
from retrier.cli.command import ExitCode, command, make_app, tools_of
from retrier.cli.commands.retry import Asking
from retrier.cli.options import NOBODY_ANSWERS, Pages, Service, User, name_user
from retrier.cli.pending_target import Chosen, Filters
from retrier.cli.plans import note_plan, planned
from retrier.cli.printer import Printer, counted, short_id
from retrier.cli.selection_options import resolve_ids
from retrier.cli.views.archives import changed_none, show_act
from retrier.cli.views.operations import show_refused
from retrier.cli.views.pending import show_pending

app = make_app(
    "Retries whose outcome has not arrived: sent, and neither confirmed nor failed again."
)

TWICE = (
    "Their consumers may have handled them already: a message that is retried again may be "
    "handled twice."
)
"""Said before anything is retried again."""


@app.command(
    "list",
    epilog="""
    \b
    Examples:
      retrier pending list
      retrier pending list --queue orders --older-than 2d
    """,
)
@command
def list_pending(ctx: typer.Context, wanted: Filters, pages: Pages, service: Service) -> None:
    """List the pending retries, the longest wait first."""
    printer = tools_of(ctx).printer
    with service.open(ctx) as api:
        found = pages.fetch(api, "pendingretries", **wanted.params(api))
    if service.as_json:
        printer.document({"total": found.total, "items": found.items})
    elif wanted.ids:
        printer.lines(item["id"] for item in found.items)
    elif found.items:
        show_pending(printer, found.items)
        printer.note(f"{len(found.items):,} of {counted(found.total, 'pending retry')}")
    else:
        printer.note("no retry waits for its outcome")


@app.command(
    epilog="""
    \b
    Examples:
      retrier pending retry 3f2b91c0
      retrier pending retry --queue orders --older-than 2d
    """
)
@command
def retry(ctx: typer.Context, chosen: Chosen, asking: Asking, service: Service) -> None:
    """Send pending retries once more.

    The outcome of the first retry is no longer waited for. Their consumers may have handled them
    already: a message that is retried again may be handled twice. How many it is about is told
    first, and the command asks whether to go on.
    """
    matching, headers = chosen.check(), asking.headers()
    printer = tools_of(ctx).printer
    with service.open(ctx) as api:
        ids = resolve_ids(api, chosen.ids) if chosen.ids else ()
        if chosen.dry_run:
            _show_preview(
                printer, chosen.look(api, "retry"), "retry again", as_json=service.as_json
            )
            return
        printer.note(TWICE)
        plan = _ask(printer, api, chosen, ids, ("retry", "Retry {} again?"))
        path = ("pendingretries", "retry") if ids else ("pendingretries", "retry", "all")
        accepted = api.ask(path, ids or {**matching, **planned(plan)}, headers)
    if service.as_json:
        printer.document(accepted)
        return
    operations = ", ".join(map(short_id, accepted["operations"])) or "none"
    total = counted(accepted["total"], "message")
    printer.line(f"asked for another retry of {total}; operations: {operations}")
    for each in accepted["operations"]:
        printer.note(f"Follow it with: retrier operations show {short_id(each)} --watch")


@app.command(
    epilog="""
    \b
    Examples:
      retrier pending resolve 3f2b91c0
      retrier pending resolve --older-than 7d --yes
    """
)
@command
def resolve(ctx: typer.Context, chosen: Chosen, service: Service, user: User = "") -> None:
    """Resolve pending retries by hand.

    A failure that comes later makes its message unresolved again.
    """
    matching = chosen.check()
    printer = tools_of(ctx).printer
    with service.open(ctx) as api:
        ids = resolve_ids(api, chosen.ids) if chosen.ids else ()
        if chosen.dry_run:
            _show_preview(printer, chosen.look(api, "resolve"), "resolve", as_json=service.as_json)
            return
        plan = _ask(printer, api, chosen, ids, ("resolve", "Resolve {} by hand?"))
        path = ("pendingretries", "resolve") if ids else ("pendingretries", "resolve", "all")
        body = {"uniquemessageids": ids} if ids else {**matching, **planned(plan)}
        done = api.change(path, body, name_user(user))
    if service.as_json:
        printer.document(done)
    else:
        show_act(printer, "resolve", done)
    raise typer.Exit(ExitCode.REFUSED if ids and changed_none(done) else ExitCode.DONE)


def _ask(
    printer: Printer,
    api: ApiClient,
    chosen: Chosen,
    ids: tuple[str, ...],
    question: tuple[str, str],
) -> str | None:
    """Say how many it is about, and go on only if a person says yes. Raises Exit.

    Returns the plan of what the person was shown: what is sent while the question stands is not
    part of it. `question` is the act, and its words.
    """
    act, words = question
    if chosen.yes:
        return chosen.plan
    if ids:
        confirm(printer, words.format(counted(len(ids), "named message")))
        return None
    found = chosen.look(api, act)
    confirm(printer, words.format(counted(found["total"], "pending retry")))
    return str(chosen.plan or found["plan"])


def _show_preview(printer: Printer, found: Json, what: str, *, as_json: bool) -> None:
    if as_json:
        printer.document({"dry_run": True, **found})
        return
    printer.line(f"would {what} {counted(found['total'], 'message')}")
    show_refused(printer, found)
    note_plan(printer, found)


def confirm(printer: Printer, question: str) -> None:
    """Go on only if a person says yes. Raises Exit."""
    printer.note(f"{question} [y/N]")
    # Not typer's prompt: that writes to standard output, which is for the answer.
    answer = sys.stdin.readline()
    if answer.strip().lower() in {"y", "yes"}:
        return
    advice = "" if answer else f" {NOBODY_ANSWERS}"
    printer.note(f"Nothing has changed.{advice}")
    raise typer.Exit(ExitCode.REFUSED)
