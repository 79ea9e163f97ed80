"""`retrier pending`: the retries whose outcome has not arrived: listed, retried again, resolved."""

import sys
from collections.abc import Iterable
from typing import Annotated

import typer

from retrier.api.shapes.messages import PendingRetry
from retrier.api.shapes.operations import ArchiveOutcome, ArchivePreview, AskedAgain
from retrier.cli.api_client import ApiClient, Json
from retrier.cli.archives import changed_none, show_act
from retrier.cli.command import (
    NOBODY_ANSWERS,
    CalledService,
    ExitCode,
    FollowedPages,
    User,
    command,
    find_operation_id,
    make_app,
    name_user,
    offer_queues,
)
from retrier.cli.errors import name_of, title_of_names
from retrier.cli.operations import show_refused
from retrier.cli.printer import Column, Printer, counted, duration, minute, short_id
from retrier.cli.retry import Asking
from retrier.cli.selection import Ids, PlanOption, note_plan, planned, resolve_ids
from retrier.domain.times import NoTime, read_duration
from retrier.domain.values import dataclass

Queue = Annotated[
    str | None,
    typer.Option(
        "--queue", metavar="NAME", autocompletion=offer_queues, help="Failed on this queue."
    ),
]
OlderThan = Annotated[
    str | None,
    typer.Option("--older-than", metavar="TIME", help="Sent so long ago: 30s, 5m, 1h, 2d."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingFilters:
    """Which pending retries are listed: those that match all options given."""

    queue: Queue = None
    older_than: OlderThan = None
    operation: Annotated[
        str | None, typer.Option("--operation", metavar="ID", help="Asked for by this operation.")
    ] = None
    ids: Annotated[
        bool, typer.Option("--ids", help="Print whole ids only, one per line, for a pipe.")
    ] = False

    def params(self, api: ApiClient) -> dict[str, str]:
        """Return the query parameters of the API."""
        parts = {name: str(value) for name, value in _matching(self.queue, self.older_than).items()}
        if self.operation is not None:
            parts["operation"] = find_operation_id(api, self.operation)
        return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSelection:
    """Which pending retries are changed: ids, or those that match, or all; and whether to ask."""

    ids: Ids = None
    queue: Queue = None
    older_than: OlderThan = None
    everything: Annotated[bool, typer.Option("--all", help="Every pending retry.")] = False
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether to go on.")] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be changed; change nothing.")
    ] = False
    plan: PlanOption = None

    def check(self) -> dict[str, object]:
        """Return the condition of a bulk. Raises BadParameter unless one kind is given."""
        some = self.queue is not None or self.older_than is not None
        if [bool(self.ids), some, self.everything].count(True) != 1:
            raise typer.BadParameter("give ids, or --queue and --older-than, or --all.")
        if self.ids and (self.dry_run or self.plan is not None):
            raise typer.BadParameter("--dry-run and --plan go with no ids.")
        return _matching(self.queue, self.older_than)

    def look(self, api: ApiClient, act: str) -> ArchivePreview:
        """Return what an act on those that match would change, and its plan."""
        return api.look(ArchivePreview, ("pendingretries", act, "all", "preview"), self.check())


def _matching(queue: str | None, older_than: str | None) -> Json:
    """Return the condition as the API reads it. Raises BadParameter."""
    if queue == "":
        raise typer.BadParameter("the name of the queue is empty.")
    parts: Json = {} if queue is None else {"queue": queue}
    return parts if older_than is None else {**parts, "older_than": _seconds(older_than)}


def _seconds(text: str) -> float:
    try:
        age = read_duration(text).total_seconds()
    except NoTime as error:
        raise typer.BadParameter(f"--older-than: {error}") from None
    if not age:
        raise typer.BadParameter("--older-than: everything is older than nothing: use --all.")
    return age


_COLUMNS = (
    Column(title="id"),
    Column(title="waits"),
    Column(title="sent (UTC)", time=True),
    Column(title="sent to", flexible=True),
    Column(title="operation", extra=True),
)


def show_pending(printer: Printer, items: Iterable[PendingRetry]) -> None:
    """Print one line per pending retry."""
    listed = list(items)
    named = Column(title=title_of_names(listed), flexible=True)
    printer.table((*_COLUMNS, named), [_row(item) for item in listed])


def _row(item: PendingRetry) -> tuple[object, ...]:
    return (
        short_id(item["id"]),
        duration(item["waiting_seconds"]),
        minute(item["claim"].get("forwarded_at")),
        item["sent_to"],
        short_id(item["claim"]["operation_id"]),
        name_of(item),
    )


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
def list_pending(
    ctx: typer.Context, wanted: PendingFilters, pages: FollowedPages, service: CalledService
) -> None:
    """List the pending retries, the longest wait first."""
    printer = service.printer(ctx)
    with service.open(ctx) as api:
        params = wanted.params(api)
        if wanted.ids and not service.as_json:
            printer.lines(pages.ids(api, "pendingretries", **params))
            return
        found = pages.walk(api, PendingRetry, "pendingretries", **params)
        nothing = "no retry waits for its outcome"
        pages.show(printer, found, show_pending, "pending retry", nothing)


@app.command(
    epilog="""
    \b
    Examples:
      retrier pending retry 3f2b91c0
      retrier pending retry --queue orders --older-than 2d
    """
)
@command
def retry(
    ctx: typer.Context, chosen: PendingSelection, asking: Asking, service: CalledService
) -> None:
    """Send pending retries once more.

    The outcome of the first retry is no longer waited for. Their consumers may have handled them
    already: a message that is retried again may be handled twice. How many it is about is told
    first, and the command asks whether to go on.
    """
    matching, headers = chosen.check(), asking.headers()
    printer = service.printer(ctx)
    with service.open(ctx) as api:
        ids = resolve_ids(api, chosen.ids) if chosen.ids else ()
        if chosen.dry_run:
            _show_preview(printer, chosen.look(api, "retry"), "retry again")
            return
        printer.note(TWICE)
        plan = _ask(printer, api, chosen, ids, ("retry", "Retry {} again?"))
        path = ("pendingretries", "retry") if ids else ("pendingretries", "retry", "all")
        accepted = api.ask(AskedAgain, path, ids or {**matching, **planned(plan)}, headers)
    printer.show(accepted, _show_accepted)


def _show_accepted(printer: Printer, accepted: AskedAgain) -> None:
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
def resolve(
    ctx: typer.Context, chosen: PendingSelection, service: CalledService, user: User = ""
) -> None:
    """Resolve pending retries by hand.

    A failure that comes later makes its message unresolved again.
    """
    matching = chosen.check()
    printer = service.printer(ctx)
    with service.open(ctx) as api:
        ids = resolve_ids(api, chosen.ids) if chosen.ids else ()
        if chosen.dry_run:
            _show_preview(printer, chosen.look(api, "resolve"), "resolve")
            return
        plan = _ask(printer, api, chosen, ids, ("resolve", "Resolve {} by hand?"))
        path = ("pendingretries", "resolve") if ids else ("pendingretries", "resolve", "all")
        body = {"uniquemessageids": ids} if ids else {**matching, **planned(plan)}
        done = api.change(ArchiveOutcome, path, body, name_user(user))
    printer.show(done, lambda printer, done: show_act(printer, "resolve", done))
    raise typer.Exit(ExitCode.REFUSED if ids and changed_none(done) else ExitCode.DONE)


def _ask(
    printer: Printer,
    api: ApiClient,
    chosen: PendingSelection,
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


def _show_preview(printer: Printer, found: ArchivePreview, what: str) -> None:
    def for_people(printer: Printer, _: object) -> None:
        printer.line(f"would {what} {counted(found['total'], 'message')}")
        show_refused(printer, found["skipped"])
        note_plan(printer, found["plan"])

    printer.show({"dry_run": True, **found}, for_people)


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
