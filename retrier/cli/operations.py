"""Operations and batches: listed, watched, steered, and acknowledged when they are over."""

import json
from collections.abc import Iterable, Mapping, Sequence
from shlex import quote
from typing import Annotated

import typer

from retrier.api.shapes import ReasonCount
from retrier.api.shapes.messages import Claim, FinishedRetry, RetryHistory
from retrier.api.shapes.operations import (
    ArchiveOperationDetails,
    AskedRetry,
    Batch,
    BatchDetails,
    Operation,
    OperationDetails,
    OperationPreview,
    RunningCanary,
)
from retrier.cli.advice import advise_on_missing_queue
from retrier.cli.command import (
    CalledService,
    FollowedPages,
    User,
    command,
    find_batch_id,
    find_group_id,
    find_operation_id,
    make_app,
    name_user,
    offer_groups,
    offer_operations,
    tools_of,
)
from retrier.cli.printer import Column, Printer, counted, minute, moment, short_id
from retrier.cli.progress import RETRIES, exit_code_of, watch_operation
from retrier.cli.selection import content_of
from retrier.domain.outcomes import OUTCOME_WORDS, RetryOutcome, outcomes_to_show
from retrier.domain.retry_operation import HIGHEST_RATE, name_skipped

_OPERATIONS = (
    Column(title="id"),
    Column(title="state"),
    Column(title="asked (UTC)", extra=True),
    Column(title="total", number=True),
    Column(title="sent", number=True),
    Column(title="confirmed", number=True),
    Column(title="came back", number=True),
    Column(title="no outcome", number=True),
    Column(title="skipped", number=True, extra=True),
    Column(title="failed", number=True),
    Column(title="by", flexible=True, extra=True),
    Column(title="what", flexible=True),
)
_WAITS = Column(title="waits because", flexible=True, below=True)
_BATCHES = (
    Column(title="id"),
    Column(title="status"),
    Column(title="operation"),
    Column(title="size", number=True),
    Column(title="claims", number=True),
    Column(title="forwarded", number=True),
    Column(title="in doubt", number=True),
    Column(title="since (UTC)", extra=True),
    Column(title="reason", flexible=True),
)
_SKIPPED = (Column(title="id"), Column(title="reason", flexible=True))
_REFUSED = (Column(title="messages", number=True), Column(title="reason", flexible=True))
_CLAIMS = (Column(title="message"), Column(title="retry id"), Column(title="sending since"))


def show_operations(printer: Printer, items: Iterable[Operation]) -> None:
    """Print one line per operation; why one waits, only where any does."""
    listed = list(items)
    columns, rows = [*_OPERATIONS], [_operation(item) for item in listed]
    waits = [item.get("waits_because") for item in listed]
    if any(waits):
        columns.append(_WAITS)
        rows = [(*row, why) for row, why in zip(rows, waits, strict=True)]
    printer.table(columns, rows)


def show_operation(printer: Printer, found: OperationDetails) -> None:
    """Print everything about one operation."""
    waits = found.get("waits_because")
    printer.sheet(
        {
            "id": found["id"],
            "what": found["originator"],
            **content_of(found["selection"]),
            "asked by": found["requested_by"],
            "state": found["state"],
            # Not twice: a wait is often told as the reason of the state, too.
            "reason": None if found.get("reason") == waits else found.get("reason"),
            "waits because": waits,
            **_terms(found),
            "total": found["total"],
            "sent": found["forwarded"],
            **{OUTCOME_WORDS[each]: count for each, count in _shown_outcomes(found).items()},
            name_skipped(found["state"]): found["skipped"],
            "failed": found["failed"],
            "dead, left out": found.get("dead_left_out") or None,
            "remaining": found["remaining"],
            **_schedule(found),
            **_approval(found),
            "batches": found["batches"],
            "batch": found.get("batch_id"),
            **_times(found),
        }
    )
    show_skipped(printer, found)


def show_outcome(printer: Printer, found: OperationDetails) -> None:
    """Print the result of an operation in one sentence, and why messages were skipped.

    What became of what it sent belongs to it: a message that is sent back may fail again.
    """
    words = [f"{found['forwarded']:,} of {counted(found['total'], 'message')} sent back"]
    named = {"skipped": name_skipped(found["state"]), "failed": "failed"}
    counts: Mapping[str, object] = found
    words += [f"{counts[name]:,} {word}" for name, word in named.items() if counts[name]]
    reason = f": {found['reason']}" if found.get("reason") else ""
    if reason and found["failed"] > 1 and found["state"] == "completed":
        # Each may have failed for a reason of its own: this is that of one.
        reason = f", one of them because{reason.removeprefix(':')}"
    state = "" if found["state"] == "completed" else f"{found['state']}: "
    became = [f"{count:,} {OUTCOME_WORDS[each]}" for each, count in _shown_outcomes(found).items()]
    printer.line(f"{state}{', '.join(words)}{reason}{'; ' if became else ''}{', '.join(became)}")
    if found["state"] == "paused":
        short = short_id(found["id"])
        printer.note(
            f"`retrier operations resume {short}` lets it go on, `cancel {short}` ends it."
        )
    show_skipped(printer, found)
    note_dead(printer, found, found["selection"])
    if found["failed"]:
        printer.note("What failed is unresolved again; `retrier errors show ID` says why.")
        advise_on_missing_queue(printer, found.get("reason"))
    if found["outcomes"][RetryOutcome.WAITING]:
        printer.note(
            "Consumers that send no confirmation leave their messages in `retrier pending list`."
        )


def _shown_outcomes(found: Operation) -> Mapping[RetryOutcome, int]:
    return outcomes_to_show({each: int(found["outcomes"][each]) for each in RetryOutcome})


def show_batches(printer: Printer, items: Iterable[Batch]) -> None:
    """Print one line per batch alive."""
    printer.table(_BATCHES, [_batch(item) for item in items])


def show_batch(printer: Printer, found: BatchDetails) -> None:
    """Print everything about one batch, with the claims that are in doubt."""
    shown: Mapping[str, object] = found
    names = ("id", "status", "operation_id", "session_id", "staging_id", "initial_size")
    counts = ("message_count", "claims", "forwarded", "in_doubt", "stage_attempts", "reason")
    times = ("created_at", "modified_at", "not_before")
    printer.sheet(
        {name.replace("_", " "): shown.get(name) for name in (*names, *counts)}
        | {name.replace("_", " "): moment(shown[name]) for name in times if name in shown}
    )
    claims = found["claims_in_doubt"]
    if claims:
        printer.heading("claims in doubt")
        printer.table(_CLAIMS, [_claim(each) for each in claims])


MOST_NAMED = 1000
"""Of messages that are skipped, so many at most are named in an answer of the service."""


Skips = AskedRetry | OperationDetails | ArchiveOperationDetails
LeavesOut = AskedRetry | OperationDetails | OperationPreview


def show_skipped(printer: Printer, found: Skips) -> None:
    """Print which named messages were skipped, or would be, and why."""
    skipped = found.get("skipped_messages")
    if skipped:
        printer.heading("skipped")
        # Not shortened: a person may have named something that is no id at all.
        printer.table(_SKIPPED, [(each["id"], each["reason"]) for each in skipped])
        if len(skipped) >= MOST_NAMED:
            printer.note(
                f"the first {len(skipped):,} of {counted(found['skipped'], 'skipped message')}"
            )


def note_dead(printer: Printer, answer: LeavesOut, selection: Mapping[str, object]) -> None:
    """Remark how many dead messages a retry leaves out, and how to send them, too."""
    count = answer.get("dead_left_out") or 0
    if count:
        them = f"{counted(count, 'message')} {'is' if count == 1 else 'are'} dead and left out"
        printer.note(f"{them}; all of them: `{_retry_with_dead(selection)}`")


def _retry_with_dead(selection: Mapping[str, object]) -> str:
    parts = {name: value for name, value in selection.items() if name not in ("all", "ids")}
    options = (f"--{name.replace('_', '-')} {quote(str(each))}" for name, each in parts.items())
    return " ".join(["retrier retry", *options, "--disposition any"])


def show_refused(printer: Printer, skipped: Sequence[ReasonCount]) -> None:
    """Print how many messages an act left as they were, and why."""
    if skipped:
        printer.heading("skipped")
        printer.table(_REFUSED, [(each["count"], each["reason"]) for each in skipped])


_LISTED = (RetryOutcome.CONFIRMED, RetryOutcome.CAME_BACK, RetryOutcome.WAITING)


def _operation(item: Operation) -> tuple[object, ...]:
    outcomes = (item["outcomes"][each] for each in _LISTED)
    counts = (item["total"], item["forwarded"], *outcomes, item["skipped"], item["failed"])
    planned = f": {item['scheduled']:,} scheduled" if "scheduled" in item else ""
    asked = (item["requested_by"], f"{item['originator']}{planned}")
    return (
        short_id(item["id"]),
        "asked for approval" if _is_asking(item) else item["state"],
        minute(item["created_at"]),
        *(f"{each:,}" for each in counts),
        *asked,
    )


def _times(found: Mapping[str, object]) -> dict[str, str]:
    names = {
        "asked": "created_at",
        "started": "started_at",
        "estimated end": "estimated_end",
        "completed": "completed_at",
    }
    return {shown: moment(found[name]) for shown, name in names.items() if name in found}


def _approval(found: Operation) -> dict[str, object]:
    """Return who asked for approval, and what was decided."""
    shown = found.get("approval")
    if shown is None:
        return {}
    return {
        "approval": shown["state"],
        "approval asked by": shown["asked_by"],
        "lapses": moment(shown["lapses_at"]) if shown["state"] == "asked" else None,
        "decided by": shown.get("decided_by"),
        "plan hash": shown["plan_hash"],
    }


def _schedule(found: Operation) -> dict[str, object]:
    """Return what the operation is to send that sends what is due by policy."""
    if "scheduled" not in found:
        return {}
    due = moment(found["next_due"]) if "next_due" in found else "nothing"
    return {"scheduled": f"{found['scheduled']:,}", "next due": due}


def _terms(found: OperationDetails) -> dict[str, object]:
    """Return how its messages are sent, as far as somebody asked for it."""
    rate, canary = found.get("rate"), found.get("canary")
    return {
        "why": found.get("why"),
        "limit": found.get("limit"),
        "destination": found.get("destination"),
        "without headers": ", ".join(found.get("drop_headers") or ()) or None,
        "patch": json.dumps(found["patch"]) if found.get("patch") else found.get("patch_hash"),
        "rate": None if rate is None else f"{counted(rate, 'message')} a second",
        "not before": moment(found["not_before"]) if "not_before" in found else None,
        "canary": None if canary is None else describe_canary(canary),
    }


def describe_canary(canary: RunningCanary) -> str:
    """Say how far the first messages of an operation are."""
    sent = f"{canary['sent']:,} of {counted(canary['size'], 'message')} sent"
    return f"{canary['state']}: {sent}, {canary['came_back']:,} came back, {canary['limit']:,} may"


def describe_standing(found: Operation) -> str:
    """Say in one sentence how far an operation is, and why it waits."""
    state = "asked for approval" if _is_asking(found) else found["state"]
    state = "being cancelled" if _is_ending(found) else state
    words = [f"{found['forwarded']:,} of {counted(found['total'], 'message')} sent back"]
    named = {"skipped": name_skipped(found["state"]), "failed": "failed", "scheduled": "scheduled"}
    counts: Mapping[str, object] = found
    words += [f"{counts[name]:,} {word}" for name, word in named.items() if counts.get(name)]
    if found.get("rate") is not None:
        words.append(f"{found['rate']:,} a second at most")
    return f"{state}; {', '.join(words)}"


def _is_asking(found: Operation) -> bool:
    approval = found.get("approval")
    return approval is not None and approval["state"] == "asked"


def _is_ending(found: Operation) -> bool:
    return bool(found["cancel_asked"]) and found["state"] not in ("completed", "cancelled")


def _batch(item: Batch) -> tuple[object, ...]:
    return (
        short_id(item["id"]),
        item["status"],
        short_id(item["operation_id"]),
        item["initial_size"],
        item["claims"],
        item["forwarded"],
        item["in_doubt"],
        minute(item["created_at"]),
        item.get("reason"),
    )


def _claim(claim: Claim) -> tuple[object, ...]:
    ids = (short_id(claim["unique_message_id"]), claim["retry_id"])
    return (*ids, moment(claim["sending_since"]))


operations_app = make_app("Look at retry operations: one for each request for retries.")

OperationId = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        autocompletion=offer_operations,
        help="The id, or its first 8 characters or more.",
    ),
]
Watch = Annotated[bool, typer.Option("--watch", help="Follow it until it is over.")]


@operations_app.command("list", epilog="Example: retrier operations list --limit 10")
@command
def list_operations(ctx: typer.Context, pages: FollowedPages, service: CalledService) -> None:
    """List retry operations, the newest first."""
    printer = service.printer(ctx)
    with service.open(ctx) as api:
        found = pages.walk(api, Operation, "operations")
        pages.show(printer, found, show_operations, "operation", "no retry was asked for yet")


@operations_app.command(
    epilog="""
    \b
    Examples:
      retrier operations show 8d07c3aa
      retrier operations show 8d07c3aa --watch
    """
)
@command
def show(
    ctx: typer.Context, operation_id: OperationId, service: CalledService, *, watch: Watch = False
) -> None:
    """Show one operation.

    Its progress, and why messages named by id were skipped. With --watch the exit code is 1 if any
    message failed or was skipped, as with `retrier retry --watch`.
    """
    tools = tools_of(ctx)
    with service.open(ctx) as api:
        whole = find_operation_id(api, operation_id)
        found = (
            watch_operation(tools, api, whole, RETRIES)
            if watch
            else api.find(OperationDetails, "operations", whole)
        )
    service.printer(ctx).show(found, show_operation)
    if watch:
        raise typer.Exit(exit_code_of(found))


batches_app = make_app("Look at the retry batches now alive; a batch that is done is deleted.")

BatchId = Annotated[
    str, typer.Argument(metavar="ID", help="The id, or its first 8 characters or more.")
]


@batches_app.command("list", epilog="Example: retrier batches list --json")
@command
def list_batches(ctx: typer.Context, service: CalledService) -> None:
    """List every batch now alive, the oldest first."""
    printer = service.printer(ctx)
    with service.open(ctx) as api:
        found = api.page(Batch, "batches")
    if service.as_json:
        printer.document({"total": found.total, "items": found.items})
    elif found.items:
        show_batches(printer, found.items)
    else:
        printer.note("no batch is alive")


@batches_app.command("show", epilog="Example: retrier batches show 0c9e4f21")
@command
def show_batch_alive(ctx: typer.Context, batch_id: BatchId, service: CalledService) -> None:
    """Show one batch.

    With the claims that are in doubt: perhaps sent, but not recorded as sent.
    """
    printer = service.printer(ctx)
    with service.open(ctx) as api:
        found = api.find(BatchDetails, "batches", find_batch_id(api, batch_id))
    printer.show(found, show_batch)


steering_app = operations_app
"""That of `retrier operations`, with these commands added."""

OFF = "off"

Rate = Annotated[
    str,
    typer.Argument(metavar="RATE", help=f"Messages a second at most, or {OFF} for no limit."),
]


@operations_app.command(epilog="Example: retrier operations pause 8d07c3aa")
@command
def pause(
    ctx: typer.Context, operation_id: OperationId, service: CalledService, user: User = ""
) -> None:
    """Pause an operation.

    The batch that is on its way is finished, and nothing more is sent, also after a restart.
    """
    _steer(ctx, operation_id, service, user, "PATCH", {"paused": True})


@operations_app.command(epilog="Example: retrier operations resume 8d07c3aa")
@command
def resume(
    ctx: typer.Context, operation_id: OperationId, service: CalledService, user: User = ""
) -> None:
    """Let a paused operation go on where it stood.

    Also one that paused itself, because too many of its first messages came back.
    """
    _steer(ctx, operation_id, service, user, "PATCH", {"paused": False})


@operations_app.command(epilog="Example: retrier operations cancel 8d07c3aa")
@command
def cancel(
    ctx: typer.Context, operation_id: OperationId, service: CalledService, user: User = ""
) -> None:
    """Cancel an operation.

    What is being sent is finished. All that is not sent is unresolved as before, and skipped.
    """
    _steer(ctx, operation_id, service, user, "DELETE", None)


@operations_app.command(epilog="Example: retrier operations approve 8d07c3aa")
@command
def approve(
    ctx: typer.Context, operation_id: OperationId, service: CalledService, user: User = ""
) -> None:
    """Approve an operation that another person has asked for.

    It goes as any other from now on. Who asked for it cannot approve it.
    """
    _decide(ctx, operation_id, service, user, "approve")


@operations_app.command(epilog="Example: retrier operations refuse 8d07c3aa")
@command
def refuse(
    ctx: typer.Context, operation_id: OperationId, service: CalledService, user: User = ""
) -> None:
    """Refuse an operation that another person has asked for.

    It is cancelled, and nothing of it is sent.
    """
    _decide(ctx, operation_id, service, user, "refuse")


@operations_app.command(
    epilog="""
    \b
    Examples:
      retrier operations rate 8d07c3aa 50
      retrier operations rate 8d07c3aa off
    """
)
@command
def rate(
    ctx: typer.Context,
    operation_id: OperationId,
    rate_: Rate,
    service: CalledService,
    user: User = "",
) -> None:
    """Change how fast an operation sends, while it runs."""
    _steer(ctx, operation_id, service, user, "PATCH", {"rate": _read_rate(rate_)})


def _read_rate(text: str) -> int | None:
    if text == OFF:
        return None
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= HIGHEST_RATE:
        raise typer.BadParameter(f"RATE is a number from 1 to {HIGHEST_RATE}, or {OFF}.")
    return int(text)


def _decide(
    ctx: typer.Context, operation_id: str, service: CalledService, user: str, verdict: str
) -> None:
    """Decide about the operation as it is shown now: the plan that was looked at is named."""
    printer = service.printer(ctx)
    with service.open(ctx) as api:
        whole = find_operation_id(api, operation_id)
        seen = api.find(OperationDetails, "operations", whole).get("approval")
        body = {} if seen is None else {"plan_hash": seen["plan_hash"]}
        path = ("operations", whole, verdict)
        found = api.act(OperationDetails, "POST", path, body, name_user(user))
    printer.show(found, f"{short_id(whole)}: {describe_standing(found)}")


def _steer(
    ctx: typer.Context,
    operation_id: str,
    service: CalledService,
    user: str,
    method: str,
    content: object,
) -> None:
    printer = service.printer(ctx)
    with service.open(ctx) as api:
        whole = find_operation_id(api, operation_id)
        found = api.act(OperationDetails, method, ("operations", whole), content, name_user(user))
    printer.show(found, f"{short_id(whole)}: {describe_standing(found)}")


history_app = make_app("Look at retries that are over.")

_COLUMNS = (
    Column(title="operation"),
    Column(title="over (UTC)"),
    Column(title="sent", number=True),
    Column(title="confirmed", number=True),
    Column(title="came back", number=True),
    Column(title="all well"),
    Column(title="what", flexible=True),
)


_COUNTED = (RetryOutcome.CONFIRMED, RetryOutcome.CAME_BACK)


@history_app.command(epilog="Example: retrier history")
@command
def history(ctx: typer.Context, service: CalledService) -> None:
    """List the retries that were over last."""
    printer = service.printer(ctx)
    with service.open(ctx) as api:
        found = api.find(RetryHistory, "recoverability", "history")
    printer.show(found, _show_history)


def _show_history(printer: Printer, found: RetryHistory) -> None:
    if found["historic_operations"]:
        printer.table(_COLUMNS, [_row(each) for each in found["historic_operations"]])
    else:
        printer.note("no retry is over yet")
    if waiting := found["unacknowledged_operations"]:
        printer.heading("not acknowledged")
        printer.table(_COLUMNS, [_row(each) for each in waiting])


Group = Annotated[
    str,
    typer.Argument(
        metavar="GROUP",
        autocompletion=offer_groups,
        help="The id of a group, or its first 8 characters.",
    ),
]


@history_app.command(epilog="Example: retrier acknowledge 5a1d0b7e")
@command
def acknowledge(ctx: typer.Context, group: Group, service: CalledService, user: User = "") -> None:
    """Take note of the end of a retry or archive of a group."""
    with service.open(ctx) as api:
        whole = find_group_id(api, group)
        path = ("recoverability", "unacknowledgedgroups", whole)
        api.do("DELETE", path, None, name_user(user))
    printer = service.printer(ctx)
    printer.show({"acknowledged": whole}, f"acknowledged: group {short_id(whole)}")


def _row(item: FinishedRetry) -> tuple[object, ...]:
    well = {True: "yes", False: "no", None: "not known yet"}[item.get("is_well")]
    counts = (item["number_of_messages_processed"], *(item["outcomes"][n] for n in _COUNTED))
    over = minute(item["completion_time"])
    told = (f"{each:,}" for each in counts)
    return short_id(item["operation_id"]), over, *told, well, item["originator"]
