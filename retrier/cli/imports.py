"""`retrier imports`: messages that could not be read, and what can be done with them."""

from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated

import typer

from retrier.api.shapes import PlannedTotal, ReasonCount, SkippedMessage
from retrier.api.shapes.service import Import, ImportDetails, ReadAgain, SentImport
from retrier.cli.advice import advise_on_imports, advise_on_kept
from retrier.cli.api_client import ApiClient, Json, Listing, T
from retrier.cli.command import (
    NOBODY_ANSWERS,
    CalledService,
    ExitCode,
    FollowedPages,
    Headers,
    Output,
    User,
    command,
    find_import_id,
    make_app,
    name_user,
    offer_imports,
    tools_of,
    with_standard_input,
    write_bytes,
)
from retrier.cli.printer import (
    Column,
    Printer,
    counted,
    minute,
    moment,
    one_line,
    short_id,
)
from retrier.cli.selection import PlanOption, note_plan, planned
from retrier.domain.failed_imports import ImportKind, kind_of
from retrier.domain.values import dataclass
from retrier.errors import RequestRefused

_SHOWN_TEXT = 2_000
"""Characters of a body that are shown; --output writes all of it."""
_SHOWN_BYTES = 256
_ONE_OR_MANY = 2
_IN_A_LINE = 16
_LETTERS = range(0x20, 0x7F)


def show_text(printer: Printer, text: str, size: int) -> None:
    """Print the beginning of a text of so many bytes."""
    shown = text[:_SHOWN_TEXT]
    if len(shown.encode()) < size:
        printer.block(f"body, the beginning of {counted(size, 'byte')}", shown)
    else:
        printer.block("body", shown)


def show_bytes(printer: Printer, title: str, data: bytes, size: int) -> None:
    """Print the beginning of bytes, of which there are so many, as a dump."""
    shown = data[:_SHOWN_BYTES]
    part = f", the first {len(shown):,} of {counted(size, 'byte')}" if len(shown) < size else ""
    printer.block(f"{title}{part}", "\n".join(_dump(shown)))


def _dump(data: bytes) -> Iterator[str]:
    """Walk the lines of a dump: place, bytes, and the letters among them."""
    for start in range(0, len(data), _IN_A_LINE):
        line = data[start : start + _IN_A_LINE]
        letters = "".join(chr(each) if each in _LETTERS else "." for each in line)
        yield f"{start:04x}  {line.hex(' '):<{_IN_A_LINE * 3 - 1}}  {letters}"


def find_import_ids(api: ApiClient, given: Sequence[str]) -> tuple[str, ...]:
    """Return whole ids, each once. Raises RequestRefused."""
    texts = list(dict.fromkeys(with_standard_input(given)))
    if not texts:
        raise RequestRefused("Standard input named no failed import: there is nothing to do.")
    return tuple(dict.fromkeys(find_import_id(api, text) for text in texts))


def act_on_each(
    import_ids: Sequence[str], act: Callable[[str], T]
) -> tuple[dict[str, T], list[SkippedMessage]]:
    """Do something with each.

    Returns the answers by id, and why the service said no to others. Raises ServiceUnavailable,
    and leaves the rest as it is.
    """
    done: dict[str, T] = {}
    refused: list[SkippedMessage] = []
    for each in import_ids:
        try:
            done[each] = act(each)
        except RequestRefused as refusal:
            refused.append({"id": each, "reason": str(refusal)})
    return done, refused


def add_up(done: Mapping[str, ReadAgain], refused: Iterable[SkippedMessage]) -> ReadAgain:
    """Return what imports that were read one by one came to, as the service says it of all."""
    answers = done.values()
    kept: Counter[str] = Counter()
    for each in (kept_one for answer in answers for kept_one in answer["kept"]):
        kept[each["reason"]] += each["count"]
    return {
        "reimported": sum(each["reimported"] for each in answers),
        "failed_message": sum(each["failed_message"] for each in answers),
        "stored_before": sum(each["stored_before"] for each in answers),
        "confirmation": sum(each["confirmation"] for each in answers),
        "own_copy": sum(each["own_copy"] for each in answers),
        "kept": _list_reasons(kept),
        "skipped": _list_reasons(Counter(each["reason"] for each in refused)),
    }


def make_sure(confirm: Callable[[str], bool | None], number: int, *, yes: bool) -> None:
    """Ask before so many are deleted, unless the answer is given. Raises RequestRefused."""
    agreed = yes or confirm(f"Delete {counted(number, 'failed import')} for good?")
    if agreed is None:
        raise RequestRefused(f"Nothing was deleted. {NOBODY_ANSWERS}")
    if not agreed:
        raise RequestRefused("Nothing was deleted.")


def _list_reasons(reasons: Counter[str]) -> list[ReasonCount]:
    return [{"reason": reason, "count": number} for reason, number in reasons.items()]


Queue = Annotated[
    str | None, typer.Option("--queue", metavar="NAME", help="Those from this error queue.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """Which imports are read again, and where their retries go."""

    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID",
            help="Ids, or their first 8 characters or more; - reads them from standard input.",
        ),
    ] = None
    queue: Queue = None
    everything: Annotated[bool, typer.Option("--all", help="Every failed import.")] = False
    destination: Annotated[
        str | None,
        typer.Option(
            "--destination",
            metavar="QUEUE",
            help="Read them as if their error queue had this destination: retries go there.",
        ),
    ] = None

    dialect: Annotated[
        str | None,
        typer.Option(
            "--dialect",
            metavar="NAME",
            help="Read them as this format, whatever their headers say.",
        ),
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count what would be read again; change nothing.")
    ] = False
    plan: PlanOption = None

    def check(self) -> None:
        """Raise BadParameter unless it is one kind of target."""
        if self.ids and (self.dry_run or self.plan is not None):
            raise typer.BadParameter("--dry-run and --plan go with no ids.")
        kinds = (bool(self.ids), self.queue is not None, self.everything)
        if sum(kinds) != 1 or self.queue == "":
            raise typer.BadParameter("give ids, or one of --queue and --all.")
        if self.destination is not None and not self.destination.strip():
            # A script that found no name must not have them read as if it had given none.
            raise typer.BadParameter("--destination: give the name of a queue.")
        if self.dialect is not None and not self.dialect.strip():
            raise typer.BadParameter("--dialect: give the name of a format.")

    def ask(self, api: ApiClient, headers: Headers) -> ReadAgain:
        """Have them read again; return what they came to."""
        read_as = {"destination": self.destination, "dialect": self.dialect}
        terms = {name: value for name, value in read_as.items() if value}
        if not self.ids:
            params = self._params() | terms | planned(self.plan)
            return api.act(ReadAgain, "POST", ("imports", "retry"), None, headers, params)
        named = find_import_ids(api, self.ids)
        done, refused = act_on_each(
            named,
            lambda each: api.act(
                ReadAgain, "POST", ("imports", each, "retry"), None, headers, terms
            ),
        )
        return add_up(done, refused)

    def look(self, api: ApiClient) -> PlannedTotal:
        """Return how many would be read again, and the plan of it."""
        return api.act(
            PlannedTotal, "POST", ("imports", "retry", "preview"), None, {}, self._params()
        )

    def _params(self) -> dict[str, str]:
        return {"error_queue": self.queue} if self.queue else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """Where imports are sent, and which of them only because a person insists."""

    to: Annotated[str, typer.Option("--to", metavar="QUEUE", help="The queue to send them to.")]
    again: Annotated[
        bool, typer.Option("--again", help="Also those in doubt: they may arrive twice.")
    ] = False
    confirmation: Annotated[
        bool,
        typer.Option("--confirmation", help="Also those without a body that only confirm a retry."),
    ] = False

    def content(self) -> Json:
        """Return the body of the request."""
        return {"to": self.to, "again": self.again, "confirmation": self.confirmation}


_COLUMNS = (
    Column(title="id"),
    Column(title="state"),
    Column(title="received (UTC)", time=True),
    Column(title="total bytes", number=True),
    Column(title="error queue", flexible=True),
    Column(title="reason", flexible=True, weight=2),
)
_REASONS = (Column(title="count", number=True), Column(title="reason", flexible=True))
_REFUSED = (Column(title="id"), Column(title="reason", flexible=True))
_STATES = {"kept": "kept", "inDoubt": "in doubt"}
_LONGEST = 300
"""Characters of a header that are shown; --json has all of them."""


def show_imports(printer: Printer, items: Iterable[Import]) -> None:
    """Print one line per import."""
    printer.table(_COLUMNS, [_row(item) for item in items])


def show_import(printer: Printer, found: ImportDetails) -> None:
    """Print everything about one import, and the beginnings of its bytes."""
    printer.sheet(_facts(found))
    for title in ("properties", "headers"):
        if found[title]:
            printer.heading(title)
            printer.sheet({name: _cut(value) for name, value in found[title].items()})
    if "unreadable" in found:
        raw = b64decode(found["raw_properties"]["content"])
        show_bytes(printer, "properties as they came", raw, found["properties_size"])
    body = found["body"]
    if body["encoding"] == "utf-8":
        show_text(printer, body["content"], found["body_size"])
    else:
        show_bytes(printer, "body", b64decode(body["content"]), found["body_size"])


def show_read_again(printer: Printer, came_to: ReadAgain) -> None:
    """Print what imports became, and why others are imports still."""
    kept = [*came_to["kept"], *came_to["skipped"]]
    total = came_to["reimported"] + sum(each["count"] for each in kept)
    became = ", ".join(
        counted(number, noun)
        for number, noun in (
            (came_to["failed_message"], "failed message"),
            (came_to["confirmation"], "confirmation"),
            (came_to["stored_before"], "message stored already"),
            (came_to["own_copy"], "copy of the staging queue"),
        )
        if number
    )
    printer.line(
        f"{came_to['reimported']:,} of {counted(total, 'failed import')} understood"
        f"{f': {became}' if became else ''}"
    )
    if kept:
        printer.heading("still failed imports")
        printer.table(_REASONS, [(f"{each['count']:,}", each["reason"]) for each in kept])


def show_refused(printer: Printer, refused: Sequence[SkippedMessage]) -> None:
    """Print what was not done, and why."""
    if refused:
        printer.heading("left as they are")
        printer.table(_REFUSED, [(short_id(each["id"]), each["reason"]) for each in refused])


def _row(item: Import) -> tuple[object, ...]:
    return (
        short_id(item["id"]),
        _STATES.get(item["state"], item["state"]),
        minute(item["received_at"]),
        f"{item['properties_size'] + item['body_size']:,}",
        item["error_queue"],
        item["reason"],
    )


def _facts(found: ImportDetails) -> dict[str, object]:
    return {
        "id": found["id"],
        "state": _state(found),
        "error queue": found["error_queue"],
        "received": moment(found["received_at"]),
        "reason": found["reason"],
        "properties": _size(found["properties_size"], found.get("unreadable")),
        "body": counted(found["body_size"], "byte"),
    }


def _state(found: Import) -> str:
    send = found.get("send")
    if send is None:
        return "kept"
    since = moment(send["since"])
    return f"in doubt: perhaps sent to {send['to']}, since {since}, by {send['requested_by']}"


def _size(size: int, unreadable: str | None) -> str:
    return counted(size, "byte") + (f", not readable: {unreadable}" if unreadable else "")


def _cut(value: object) -> str:
    text = one_line(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


app = make_app("Look at messages that could not be read, and find a way out for them.")

ImportId = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        autocompletion=offer_imports,
        help="The id, or its first 8 characters or more.",
    ),
]
ImportIds = Annotated[
    list[str],
    typer.Argument(
        metavar="ID",
        autocompletion=offer_imports,
        help="Ids, or their first 8 characters or more; - reads them from standard input.",
    ),
]


@app.command(
    "list",
    epilog="""
    \b
    Examples:
      retrier imports list
      retrier imports list --queue error --limit 500
      retrier imports list --queue orders --ascending --ids | retrier imports send --to orders -
    """,
)
@command
def list_imports(
    ctx: typer.Context,
    pages: FollowedPages,
    service: CalledService,
    queue: Queue = None,
    *,
    ascending: Annotated[bool, typer.Option("--ascending", help="The oldest first.")] = False,
    ids: Annotated[
        bool, typer.Option("--ids", help="Print whole ids only, one per line, for a pipe.")
    ] = False,
) -> None:
    """List failed imports, the newest first."""
    if queue == "":
        # A script that found no name must not list them all.
        raise typer.BadParameter("--queue: the value is empty.")
    printer = service.printer(ctx)
    with service.open(ctx) as api:
        direction = "asc" if ascending else "desc"
        found = pages.walk(api, Import, "imports", error_queue=queue or "", direction=direction)
        if ids and not service.as_json:
            pages.refuse_ndjson()
            printer.lines(item["id"] for page in found for item in page.items)
            return
        shown: list[Import] = []
        nothing = "no failed import: everything could be read"
        pages.show(printer, _keeping(found, shown), show_imports, "failed import", nothing)
    if shown and not (service.as_json or pages.ndjson):
        advise_on_imports(printer, shown)


def _keeping(found: Iterator[Listing[Import]], kept: list[Import]) -> Iterator[Listing[Import]]:
    """Hand on what comes, and keep two of each kind: nothing depends on how many more there are."""
    kinds: Counter[ImportKind | None] = Counter()
    for page in found:
        for each in page.items:
            kind = None if "send" in each else kind_of(each["reason"])
            kinds[kind] += 1
            if kinds[kind] <= _ONE_OR_MANY:
                kept.append(each)
        yield page


@app.command(
    epilog="""
    \b
    Examples:
      retrier imports show 3f2b91c0
      retrier imports show 3f2b91c0 --output body.bin
    """
)
@command
def show(
    ctx: typer.Context, import_id: ImportId, service: CalledService, output: Output = None
) -> None:
    """Show one failed import.

    Why it could not be read, its headers as far as they can be, and its bytes. With --output its body is written to a file, byte for byte.
    """
    printer = service.printer(ctx)
    with service.open(ctx) as api:
        whole = find_import_id(api, import_id)
        found = api.find(ImportDetails, "imports", whole)
        if output is not None:
            data, *_ = api.body("imports", whole, "body")
            write_bytes(output, data)
            printer.note(f"{counted(len(data), 'byte')} written to {output}")
    printer.show(found, _show_with_advice)


def _show_with_advice(printer: Printer, found: ImportDetails) -> None:
    show_import(printer, found)
    advise_on_imports(printer, [found])


@app.command(
    epilog="""
    \b
    Examples:
      retrier imports retry 3f2b91c0
      retrier imports retry --queue error
      retrier imports retry 3f2b91c0 --destination orders
      retrier imports retry --all
    """
)
@command
def retry(ctx: typer.Context, which: Which, service: CalledService, user: User = "") -> None:
    """Read failed imports again.

    With the settings of today. What can be read is a failed message or a confirmation then.
    """
    which.check()
    printer = service.printer(ctx)
    with service.open(ctx) as api:
        if which.dry_run:
            found = which.look(api)
            printer.show(
                {"dry_run": True, **found}, lambda printer, _: _show_preview(printer, found)
            )
            return
        came_to = which.ask(api, name_user(user))
    printer.show(came_to, _show_kept)
    if came_to["kept"] or came_to["skipped"]:
        raise typer.Exit(ExitCode.REFUSED)


def _show_kept(printer: Printer, came_to: ReadAgain) -> None:
    show_read_again(printer, came_to)
    advise_on_kept(printer, came_to)


def _show_preview(printer: Printer, found: PlannedTotal) -> None:
    printer.line(f"would read again {counted(found['total'], 'failed import')}")
    note_plan(printer, found["plan"])


@app.command(
    epilog="""
    \b
    Examples:
      retrier imports send 3f2b91c0 --to orders
      retrier imports send 3f2b91c0 --to orders --again
    """
)
@command
def send(
    ctx: typer.Context,
    ids: ImportIds,
    sending: Sending,
    service: CalledService,
    user: User = "",
) -> None:
    """Send failed imports to a queue as they came.

    Byte for byte. What the broker has taken is no failed import any more; what it did not take stays.
    """
    printer, headers = service.printer(ctx), name_user(user)
    to = sending.to
    with service.open(ctx) as api:
        done, refused = act_on_each(
            find_import_ids(api, ids),
            lambda each: api.act(
                SentImport, "POST", ("imports", each, "send"), sending.content(), headers
            ),
        )
    document = {"sent_to": to, "sent": list(done), "refused": refused}
    printer.show(document, partial(_show_done, len(done), f"sent to {to}", refused))
    if refused:
        raise typer.Exit(ExitCode.REFUSED)


@app.command(
    epilog="""
    \b
    Examples:
      retrier imports delete 3f2b91c0
      retrier imports list --queue test --ids | retrier imports delete --yes -
    """
)
@command
def delete(
    ctx: typer.Context,
    ids: ImportIds,
    service: CalledService,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Delete without asking.")] = False,
    user: User = "",
) -> None:
    """Delete failed imports for good.

    Their bytes are nowhere else: nothing brings them back.
    """
    tools, headers = tools_of(ctx), name_user(user)
    with service.open(ctx) as api:
        whole = find_import_ids(api, ids)
        make_sure(tools.confirm, len(whole), yes=yes)
        done, refused = act_on_each(
            whole, lambda each: api.do("DELETE", ("imports", each), None, headers)
        )
    document = {"deleted": list(done), "refused": refused}
    service.printer(ctx).show(document, partial(_show_done, len(done), "deleted", refused))
    if refused:
        raise typer.Exit(ExitCode.REFUSED)


def _show_done(
    done: int, what: str, refused: Sequence[SkippedMessage], printer: Printer, _: object
) -> None:
    printer.line(f"{done:,} of {counted(done + len(refused), 'failed import')} {what}")
    show_refused(printer, refused)
