"""`retrier events` and `retrier errors history`: what happened, and what happens now."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated

import typer

from retrier.api.shapes.messages import Attempt, HistoryLine, LoggedEvent
from retrier.cli.api_client import ApiClient, Listing, T
from retrier.cli.command import (
    CalledService,
    ExitCode,
    FollowedPages,
    Pages,
    Tools,
    command,
    find_message_id,
    make_app,
    offer_operations,
    offer_words,
    tools_of,
)
from retrier.cli.errors import MessageId
from retrier.cli.errors import app as errors_app
from retrier.cli.printer import Column, Printer, moment, one_line
from retrier.cli.selection import moment as moment_of
from retrier.domain.events import KINDS, find_wrong_kind
from retrier.domain.values import dataclass
from retrier.errors import ServiceUnavailable

_PAUSE = 2.0
"""Seconds before the service is asked again."""


class EventFollower:
    """Yields each event once, from the beginning of the first connection on.

    The first connection has to succeed: it raises ServiceUnavailable. Later the service may be
    away for any time; it is told where to go on, so that nothing is left out.
    """

    def __init__(self, tools: Tools, api: ApiClient, params: Mapping[str, str]) -> None:
        self._tools = tools
        self._api = api
        self._params = params
        self._place = ""

    def follow(self) -> Iterator[LoggedEvent]:
        """Yield events as they come, for ever. Raises ServiceUnavailable, RequestRefused."""
        while True:
            try:
                yield from self._read()
                reason = "The service has ended the connection."
            except ServiceUnavailable as error:
                if not self._place:
                    raise
                reason = str(error)
            self._tools.printer.note(f"{reason}\nConnecting again ...")
            self._tools.pause(_PAUSE)

    def _read(self) -> Iterator[LoggedEvent]:
        headers = {"Last-Event-ID": self._place} if self._place else {}
        with self._api.lines(("events",), self._params, headers) as lines:
            for fields in _blocks(lines):
                # Before it is yielded: whoever gets it has it, whatever becomes of the connection.
                self._place = fields.get("id", self._place)
                if "data" in fields:
                    event: LoggedEvent = json.loads(fields["data"])
                    yield event


def _blocks(lines: Iterable[str]) -> Iterator[Mapping[str, str]]:
    """Yield the fields of each whole block: lines up to an empty one. Comments have no name."""
    fields: dict[str, str] = {}
    for line in lines:
        if not line:
            yield fields
            fields = {}
        name, _, value = line.partition(": ")
        fields[name] = value


_EVENTS = (
    Column(title="at (UTC)", time=True),
    Column(title="kind"),
    Column(title="by", flexible=True, extra=True),
    Column(title="what", flexible=True),
)
_ATTEMPTS = (
    Column(title="failed (UTC)", time=True),
    Column(title="queue", flexible=True),
    Column(title="retry id", extra=True),
    Column(title="redelivered", extra=True),
    Column(title="error", flexible=True, weight=2),
)


def show_events(printer: Printer, items: Iterable[LoggedEvent]) -> None:
    """Print one line per event."""
    printer.table(_EVENTS, [_event(item) for item in items])


def show_event(printer: Printer, item: LoggedEvent) -> None:
    """Print one event as it comes: nobody knows how wide the columns will have to be."""
    at, kind, who, text = _event(item)
    printer.line(f"{at}  {kind}: {text} ({who})")


def show_history(printer: Printer, items: Iterable[HistoryLine]) -> None:
    """Print one line per thing that happened."""
    rows = [
        (moment(each["at"]), each["kind"], each.get("who"), each["text"] + _failed(each))
        for each in items
    ]
    printer.table(_EVENTS, rows)


def _failed(item: HistoryLine) -> str:
    """Say when it failed, if that is another second than that in which it was taken off."""
    failed = moment(item.get("time_of_failure") or item["at"])
    return "" if failed == moment(item["at"]) else f" (failed at {failed})"


def show_attempts(printer: Printer, items: Iterable[Attempt]) -> None:
    """Print one line per failure."""
    printer.table(_ATTEMPTS, [_attempt(item) for item in items])


def _event(item: LoggedEvent) -> tuple[str, str, str, str]:
    return (
        moment(item["raised_at"]),
        one_line(item["kind"]),
        one_line(item["who"]),
        one_line(item["description"]),
    )


def _attempt(item: Attempt) -> tuple[object, ...]:
    details = item["failure_details"]
    exception = details["exception"]
    parts = (exception.get("exception_type"), exception["message"] or item.get("failure_reason"))
    return (
        moment(item["attempted_at"]),
        details["address_of_failing_endpoint"],
        item.get("retry_id"),
        "yes" if item["redelivered"] else "",
        ": ".join(part for part in parts if part),
    )


app = make_app("Look at what happened.")


def _kind(text: str) -> str:
    """Return the kind. Raises BadParameter if no event has it."""
    why_not = find_wrong_kind([text])
    if why_not is not None:
        raise typer.BadParameter(why_not)
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedEvents:
    """Which events are shown: those that match all options given."""

    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            parser=_kind,
            metavar="KIND",
            autocompletion=offer_words(KINDS),
            help="Of this kind; may be given again.",
        ),
    ] = None
    who: Annotated[
        str | None, typer.Option("--who", metavar="NAME", help="By who has this name.")
    ] = None
    people: Annotated[bool, typer.Option("--people", help="By people only.")] = False
    routine: Annotated[
        bool, typer.Option("--routine", help="With what is routine, such as each batch of a retry.")
    ] = False
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            parser=moment_of,
            metavar="TIME",
            help="Happened then or later: 2h, 7d, or a date or time.",
        ),
    ] = None
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            parser=moment_of,
            metavar="TIME",
            help="Happened then or before: 2h, 7d, or a date or time.",
        ),
    ] = None
    operation: Annotated[
        str | None,
        typer.Option(
            "--operation",
            metavar="ID",
            autocompletion=offer_operations,
            help="About this operation.",
        ),
    ] = None
    message: Annotated[
        str | None, typer.Option("--message", metavar="ID", help="About this failed message.")
    ] = None

    def params(self, api: ApiClient) -> dict[str, str]:
        """Return the query parameters of the API; it knows the operations of both kinds.

        Raises BadParameter, RequestRefused.
        """
        if "" in (self.who, self.operation, self.message):
            # As a condition it would be none, and find everything.
            raise typer.BadParameter("--who, --operation and --message take no empty value.")
        parts = {
            "kind": ",".join(self.kind or ()),
            "who": self.who,
            "people": "yes" if self.people else None,
            "routine": "yes" if self.routine else None,
            "since": self.since,
            "until": self.until,
            "operation": self.operation,
            "message": find_message_id(api, self.message) if self.message else None,
        }
        return {name: value for name, value in parts.items() if value}


Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Show what happens from now on, as it happens.")
]


@app.command(
    epilog="""
    \b
    Examples:
      retrier events --limit 20
      retrier events --people --since 2h
      retrier events --follow
      retrier events --follow --kind operation_completed --limit 1 --json
    """
)
@command
def events(
    ctx: typer.Context,
    wanted: WantedEvents,
    pages: FollowedPages,
    service: CalledService,
    *,
    follow: Follow = False,
) -> None:
    """Show who did what to what, the newest first.

    What is routine, such as each batch of a retry, is left out unless --routine or --kind asks for
    it.

    With --follow: what happens from now on, until Ctrl-C or until --limit events have come. With
    --json each of them is one line.
    """
    tools = tools_of(ctx)
    if follow and (pages.page or pages.per_page):
        raise typer.BadParameter("--follow goes with neither --page nor --per-page.")
    with service.open(ctx) as api:
        params = wanted.params(api)
        if follow:
            came = islice(EventFollower(tools, api, params).follow(), pages.limit)
            _show_as_they_come(service.printer(ctx), came, as_lines=pages.ndjson)
            return
        found = pages.walk(api, LoggedEvent, "eventlogitems", **params)
        pages.show(service.printer(ctx), found, show_events, "event", "no event matches")


def _show_as_they_come(printer: Printer, came: Iterable[LoggedEvent], *, as_lines: bool) -> None:
    try:
        for event in came:
            if printer.as_json or as_lines:
                printer.record(event)
            else:
                show_event(printer, event)
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None


@errors_app.command(
    epilog="""
    \b
    Examples:
      retrier errors history 3f2b91c0
      retrier errors history 3f2b91c0 --attempts --limit 500
    """
)
@command
def history(
    ctx: typer.Context,
    message_id: MessageId,
    pages: Pages,
    service: CalledService,
    *,
    attempts: Annotated[bool, typer.Option("--attempts", help="Its failures only.")] = False,
) -> None:
    """Show all that happened to one failed message.

    The oldest first: its failures, who asked for which retry, when it was sent, and what became of
    it.
    """
    printer = service.printer(ctx)
    with service.open(ctx) as api:
        whole = find_message_id(api, message_id)
        if attempts:
            failed = pages.fetch(api, Attempt, "errors", whole, "attempts")
            _show_all(printer, failed, show_attempts)
        else:
            happened = pages.fetch(api, HistoryLine, "errors", whole, "events")
            _show_all(printer, happened, show_history)


def _show_all(
    printer: Printer, found: Listing[T], show: Callable[[Printer, Sequence[T]], object]
) -> None:
    if printer.as_json:
        printer.document({"total": found.total, "items": found.items})
        return
    show(printer, found.items)
    printer.note(f"{len(found.items):,} of {found.total:,}")
