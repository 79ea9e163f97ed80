"""`retrier retry`, and `retrier errors revive` and `dead`: asks for a retry, and follows it to its end."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated
from uuid import uuid4

import typer

from retrier.api.shapes.messages import FailedMessage
from retrier.api.shapes.operations import AskedRetry, OperationPreview, PreviewedLines
from retrier.cli.api_client import IDEMPOTENCY_KEY, ApiClient, Json
from retrier.cli.command import (
    CalledService,
    ExitCode,
    User,
    command,
    find_one_message,
    make_app,
    name_user,
    note_imports_among,
    offer_messages,
    offer_words,
    tools_of,
    with_standard_input,
)
from retrier.cli.errors import MessageId, show_messages
from retrier.cli.errors import app as errors_app
from retrier.cli.operations import MOST_NAMED, note_dead, show_outcome, show_refused, show_skipped
from retrier.cli.patches import PatchFile, read_patch_file, show_patch_preview
from retrier.cli.printer import Column, Printer, counted, short_id
from retrier.cli.progress import RETRIES, exit_code_of, watch_operation
from retrier.cli.selection import SelectionOptions, TermOptions, describe, note_plan
from retrier.domain.values import dataclass
from retrier.errors import RequestRefused
from retrier.policy.reasons import BUILT_IN, find_named, why_not_a_reason

_OTHERS = "all others"
_NOT_SENT = "takes no retries: they are not sent"
_MISSING = "does not exist: retries to it fail"
_COUNTED = (Column(title="messages", number=True),)
_WOULD_BE_SKIPPED = (Column(title="id"), Column(title="would be skipped", flexible=True))


def show_preview(printer: Printer, what: str, found: OperationPreview) -> None:
    """Print how many messages would be retried, by what, and what would be skipped."""
    printer.line(f"would retry {counted(found['would_retry'], 'message')}: {what}")
    _show_destinations(printer, found)
    for title, breakdown in (
        ("group", found["groups"]),
        ("queue", found["queues"]),
        ("last failed", found["ages"]),
        ("attempts", found["attempts"]),
    ):
        _show_lines(printer, title, breakdown)
    if found["samples"]:
        printer.heading("the first of them")
        show_messages(printer, found["samples"])
    show_refused(printer, found["skipped"])
    named = found.get("skipped_messages") or ()
    if named:
        printer.table(_WOULD_BE_SKIPPED, [(each["id"], each["reason"]) for each in named])
        if len(named) >= MOST_NAMED:
            printer.note(f"the first {len(named):,} that would be skipped")
    if "patch" in found and found["patch"] is not None:
        show_patch_preview(printer, found["patch"])
    for warning in found["warnings"]:
        printer.note(warning["text"])
    note_plan(printer, found["plan"])


def _show_destinations(printer: Printer, found: OperationPreview) -> None:
    """Print to which queues they would go, and which of these are missing, or take no retries."""
    breakdown = found["destinations"]
    absent = [each["text"] for each in found["warnings"] if each["kind"] == "queue_missing"]
    lines = [
        (
            f"{each['count']:,}",
            each["name"] or "not known",
            _NOT_SENT
            if each.get("not_sent_because")
            else _MISSING
            if _is_among(each["name"], absent)
            else "",
        )
        for each in breakdown["lines"]
    ]
    if breakdown["others"]:
        lines.append((f"{breakdown['others']:,}", _OTHERS, ""))
    columns = (*_COUNTED, Column(title="destination", flexible=True), Column(title=""))
    if lines:
        shown = 3 if any(line[2] for line in lines) else 2
        printer.heading("by destination")
        printer.table(columns[:shown], [line[:shown] for line in lines])


def _is_among(queue: str, absent: Sequence[str]) -> bool:
    return any(text.startswith(f"The queue {queue} does not exist") for text in absent)


def _show_lines(printer: Printer, title: str, breakdown: PreviewedLines) -> None:
    """Print a breakdown that says more than one line would."""
    lines = [(each["count"], each["name"]) for each in breakdown["lines"]]
    if breakdown["others"]:
        lines.append((breakdown["others"], _OTHERS))
    if len(lines) > 1:
        columns = (*_COUNTED, Column(title=title, flexible=True))
        printer.heading(f"by {title}")
        printer.table(columns, lines)


_LONGEST_KEY = 255
"""What the service keeps of a key."""

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
        if len(key) > _LONGEST_KEY:
            raise typer.BadParameter(f"--idempotency-key: {_LONGEST_KEY} characters at most.")
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
    patch: PatchFile = None

    def given(self) -> Json:
        """Return the patch as the API reads it, if one was given."""
        return {} if self.patch is None else {"patch": read_patch_file(self.patch)}


@app.command(
    epilog="""
    \b
    Examples:
      retrier retry 3f2b91c0 77aa01de
      retrier retry --group 5a1d0b7e --watch
      retrier retry --queue orders --dry-run
      retrier retry --exception-type Shop.OutOfStock --limit 500 --rate 50 --canary 20
      retrier retry --queue orders --patch region.json --dry-run
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
    service: CalledService,
) -> None:
    """Send failed messages back to where they failed.

    Ids name single messages; conditions mean every unresolved message that meets all of them, and
    --all means every one. Messages that fail after the request are not retried by it, and a message
    that another retry has claimed is skipped.
    """
    chosen.check()
    terms.check()
    headers, patch = asking.headers(), options.given()
    tools, printer = tools_of(ctx), service.printer(ctx)
    with service.open(ctx) as api:
        body = {"selection": chosen.selection(api), **terms.given(), **patch}
        if options.dry_run:
            _preview(printer, api, body)
            return
        accepted = api.ask(AskedRetry, ("operations",), body, headers)
        if not service.as_json:
            note_imports_among(printer, api, accepted)
        if not options.watch:
            printer.show(accepted, partial(_show_accepted, body["selection"]))
            raise typer.Exit(_exit_code_of_asking(accepted))
        found = watch_operation(tools, api, accepted["operation_id"], RETRIES)
    printer.show(found, show_outcome)
    raise typer.Exit(exit_code_of(found))


def _preview(printer: Printer, api: ApiClient, body: Json) -> None:
    found = api.look(OperationPreview, ("operations", "preview"), body)
    what = describe(body["selection"])

    def for_people(printer: Printer, _: object) -> None:
        show_preview(printer, what, found)
        note_dead(printer, found, body["selection"])

    printer.show({"dry_run": True, "what": what, **found}, for_people)


def _show_accepted(selection: Json, printer: Printer, accepted: AskedRetry) -> None:
    if not accepted["total"]:
        printer.line("There is nothing to retry: no unresolved message matches.")
        note_dead(printer, accepted, selection)
        return
    operation = short_id(accepted["operation_id"])
    left = _count_left(accepted)
    printer.line(f"asked for a retry of {counted(left, 'message')}: operation {operation}")
    show_skipped(printer, accepted)
    note_dead(printer, accepted, selection)
    if accepted.get("waits_for_approval"):
        printer.note(
            f"It waits until another person approves it: `retrier operations approve {operation}`."
        )
    elif left:
        printer.note(f"Follow it with: retrier operations show {operation} --watch")
    else:
        printer.note("There is nothing to retry: all that was named is skipped.")


def _count_left(accepted: AskedRetry) -> int:
    return accepted["total"] - accepted.get("skipped", 0)


def _exit_code_of_asking(accepted: AskedRetry) -> ExitCode:
    """Return 1 where messages were named and none of them can be retried."""
    nothing_left = accepted["total"] and not _count_left(accepted)
    return ExitCode.REFUSED if nothing_left else ExitCode.DONE


given_up_app = errors_app
"""That of `retrier errors`, with these commands added."""

Ids = Annotated[
    list[str],
    typer.Argument(
        metavar="ID...",
        autocompletion=offer_messages,
        help="Ids, their first 8 characters or more, or message ids; - reads them from standard input.",
    ),
]


@errors_app.command(
    epilog="""
    \b
    Examples:
      retrier errors revive 3f2b91c0
      retrier errors list --disposition dead --ids | retrier errors revive -
      retrier retry --disposition dead --queue orders
    """
)
@command
def revive(ctx: typer.Context, message_ids: Ids, asking: Asking, service: CalledService) -> None:
    """Retry dead messages; their failures are counted anew.

    Each one is a retry of its own. What is not dead is refused; `retrier retry` sends that. For
    many at once: `retrier retry --disposition dead`.
    """
    printer = service.printer(ctx)
    headers = asking.headers()
    with service.open(ctx) as api:
        texts = list(dict.fromkeys(with_standard_input(message_ids)))
        answers = [_revive(api, text, headers, alone=len(texts) == 1) for text in texts]
    printer.show({"items": answers}, lambda printer, found: _show(printer, found["items"]))
    refused = not answers or any("refused" in each for each in answers)
    raise typer.Exit(ExitCode.REFUSED if refused else ExitCode.DONE)


def _a_reason(word: str) -> str:
    why_not = why_not_a_reason(word)
    if why_not is not None:
        raise typer.BadParameter(f"{word!r} cannot be given. {why_not}")
    return find_named(word) or word


@errors_app.command(
    epilog="""
    \b
    Examples:
      retrier errors dead 3f2b91c0 --why "the shop is closed"
      retrier errors dead 3f2b91c0 --why "crashes the parser" --reason poison_message
    """
)
@command
def dead(
    ctx: typer.Context,
    message_id: MessageId,
    service: CalledService,
    *,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="Why; shown with it.")],
    reason: Annotated[
        str | None,
        typer.Option(
            "--reason",
            parser=_a_reason,
            metavar="REASON",
            autocompletion=offer_words(sorted(BUILT_IN)),
            help="A built-in reason, such as poison_message: it has that until its retry fails.",
        ),
    ] = None,
    user: User = "",
) -> None:
    """Give up an unresolved message.

    Only a person's retry takes it from now on. A retry that has claimed it and not sent it goes on without it. One that is being sent or was
    sent is refused. `retrier errors revive` takes it back.
    """
    printer = service.printer(ctx)
    with service.open(ctx) as api:
        whole = find_one_message(api, message_id)
        body = {"why": why} if reason is None else {"why": why, "reason": reason}
        found = api.act(FailedMessage, "POST", ("errors", whole, "dead"), body, name_user(user))
    printer.show(found, f"{short_id(whole)} is dead: {why}")


def _revive(api: ApiClient, text: str, headers: dict[bytes, bytes], *, alone: bool) -> Json:
    """Ask for one; return the answer, or why it is refused.

    A key stands for one request: with several messages each has a key of its own, made of the one
    that was given. So the whole command can be run again.
    """
    try:
        whole = find_one_message(api, text)
        key = headers[IDEMPOTENCY_KEY] if alone else headers[IDEMPOTENCY_KEY] + f".{whole}".encode()
        keyed = {**headers, IDEMPOTENCY_KEY: key}
        return {"id": whole, **api.ask(AskedRetry, ("errors", whole, "revive"), None, keyed)}
    except RequestRefused as refused:
        return {"id": text, "refused": str(refused)}


def _show(printer: Printer, answers: list[Json]) -> None:
    for each in answers:
        if "refused" in each:
            printer.note(f"{each['id']}: {each['refused']}")
        else:
            operation = short_id(each["operation_id"])
            printer.line(f"{short_id(each['id'])} is retried: operation {operation}")
