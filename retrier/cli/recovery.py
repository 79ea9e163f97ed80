"""`retrier recover`: after a restore, what was on its way; nothing is presumed meanwhile."""

from collections.abc import Mapping
from typing import Annotated

import typer

from retrier.api.shapes.operations import ArchivePreview, AskedAgain, Recovery
from retrier.cli.api_client import ApiClient, Json
from retrier.cli.command import CalledService, command, make_app, offer_queues
from retrier.cli.pending import TWICE, confirm
from retrier.cli.printer import Column, Printer, counted, minute, short_id
from retrier.cli.retry import Asking
from retrier.cli.selection import moment, planned
from retrier.domain.values import dataclass

app = make_app("Recover after a restore.")

_COLUMNS = (
    Column(title="failed on", flexible=True),
    Column(title="no outcome", number=True),
    Column(title="sent earlier", number=True),
    Column(title="in doubt", number=True),
    Column(title="not sent", number=True),
)
_NOT_HELD = "no recovery is under way: begin one with --since and the time of the backup"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryAct:
    """What is done: shown, begun, sent again, or ended."""

    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            parser=moment,
            metavar="TIME",
            help="When the backup was made: a time, or 2h.",
        ),
    ] = None
    again: Annotated[
        bool, typer.Option("--retry", help="Send again what has no outcome, all or of --queue.")
    ] = False
    queue: Annotated[
        str | None,
        typer.Option(
            "--queue", metavar="NAME", autocompletion=offer_queues, help="Failed on this queue."
        ),
    ] = None
    over: Annotated[bool, typer.Option("--done", help="End it: presumption goes on.")] = False
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether to go on.")] = False

    def check(self) -> None:
        """Raise BadParameter if the options do not go together."""
        if self.over and (self.again or self.since is not None or self.queue is not None):
            raise typer.BadParameter("--done goes with no other option.")
        if self.queue is not None and not self.again:
            raise typer.BadParameter("--queue goes with --retry.")
        if self.queue == "":
            raise typer.BadParameter("the name of the queue is empty.")


@app.command(
    epilog="""
    \b
    Examples:
      retrier recover --since 2026-05-04T02:00:00Z
      retrier recover --retry --queue orders
      retrier recover --done
    """
)
@command
def recover(ctx: typer.Context, act: RecoveryAct, asking: Asking, service: CalledService) -> None:
    """Show what was on its way when a backup was made.

    With --since nothing is presumed to have succeeded any more, by no process, until --done. What
    was sent in the hour before that time, or later, may have failed again since: that failure went
    with the lost database. --retry sends it again.
    """
    act.check()
    headers = asking.headers()
    printer = service.printer(ctx)
    with service.open(ctx) as api:
        if act.over:
            api.do("DELETE", ("recovery",), None, headers)
            printer.show({"held": False}, "the recovery is over: presumption goes on")
            return
        found = (
            api.find(Recovery, "recovery")
            if act.since is None
            else api.act(Recovery, "POST", ("recovery",), {"since": act.since}, headers)
        )
        if not act.again:
            printer.show(found, _show)
            return
        body: Json = {} if act.queue is None else {"queue": act.queue}
        plan = _ask(printer, api, act, body) if found["held"] else None  # else the service says so
        accepted = api.ask(AskedAgain, ("recovery", "retry"), body | planned(plan), headers)
    operations = ", ".join(map(short_id, accepted["operations"])) or "none"
    words = f"asked for another retry of {counted(accepted['total'], 'message')}"
    printer.show(accepted, f"{words}; operations: {operations}")


def _ask(printer: Printer, api: ApiClient, act: RecoveryAct, body: Json) -> str | None:
    """Say how many are sent again, and go on only if a person says yes. Raises Exit.

    Returns the plan of what the person was shown.
    """
    printer.note(TWICE)
    if act.yes:
        return None
    counts = api.look(ArchivePreview, ("recovery", "retry", "preview"), body)
    confirm(printer, f"Retry {counted(counts['total'], 'message')} again?")
    return str(counts["plan"])


def _show(printer: Printer, found: Recovery) -> None:
    if not found["held"]:
        printer.note(_NOT_HELD)
        return
    if found["queues"]:
        printer.table(_COLUMNS, [_row(each) for each in found["queues"]])
    else:
        printer.note("nothing was on its way")
    printer.note(
        f"nothing is presumed since {minute(found['begun_at'])} (by {found['begun_by']}); "
        f"no outcome: sent since {minute(found['sent_from'])}, and neither confirmed nor failed again"
    )
    printer.note("Send them again with --retry, and end it with --done.")


def _row(item: Mapping[str, object]) -> tuple[object, ...]:
    names = ("sent", "sent_before", "in_doubt", "not_sent")
    return item["queue"], *(f"{item[name]:,}" for name in names)
