"""`retrier errors`: lists failed messages, and shows one of them or its body."""

from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from retrier.api.shapes.messages import (
    Claim,
    Edit,
    ExceptionDetails,
    FailedMessage,
    FailedMessageDetails,
    ProcessingAttempt,
    Summary,
)
from retrier.cli.advice import advise_on_missing_queue, note_settled
from retrier.cli.api_client import ApiClient, Listing
from retrier.cli.command import (
    CalledService,
    FollowedPages,
    Output,
    command,
    find_archive_id,
    find_message_id,
    find_one_message,
    is_short,
    make_app,
    note_imports,
    offer_messages,
    one_of,
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
from retrier.cli.selection import Conditions
from retrier.cli.views import find_conditions
from retrier.domain.classifiers import NO_REASON
from retrier.domain.decision import AGAIN
from retrier.domain.fields import PREFIX
from retrier.domain.headers import UNIQUE_MESSAGE_ID
from retrier.domain.values import dataclass
from retrier.domain.wire import PACKED, packed_as
from retrier.errors import RequestRefused

_MOST_ATTEMPTS = 50
"""So many of its attempts at most are in the answer about a message."""

_LONGEST_HEADER = 300
"""Characters of a header's value that are shown; --json shows the whole value."""

_COLUMNS = (
    Column(title="id"),
    Column(title="status"),
    Column(title="failed (UTC)", time=True),
    Column(title="attempts", number=True),
    Column(title="queue", flexible=True),
)
_DESTINATION = Column(title="destination", flexible=True)
"""Behind the queue, and only where a retry of what is listed goes elsewhere."""
_ERROR = Column(title="error", flexible=True, weight=2)
_ATTEMPTS = (
    Column(title="failed (UTC)", time=True),
    Column(title="queue", flexible=True),
    Column(title="error", flexible=True, weight=2),
)
_GROUPS = (
    Column(title="id"),
    Column(title="classifier"),
    Column(title="title", flexible=True),
)


_NAMELESS = (
    "none; that it fails again is recognised only if its consumer keeps the header "
    f"{UNIQUE_MESSAGE_ID} of the retry"
)


def show_messages(printer: Printer, items: Sequence[FailedMessage]) -> None:
    """Print one line per message."""
    named = Column(title=title_of_names(items), flexible=True, extra=True)
    columns: Sequence[Column] = (*_COLUMNS, named, _ERROR)
    rows = [_row(item) for item in items]
    elsewhere = [_destination(item) for item in items]
    if any(elsewhere):
        place = len(_COLUMNS)
        columns = (*columns[:place], _DESTINATION, *columns[place:])
        rows = [
            (*row[:place], queue, *row[place:]) for row, queue in zip(rows, elsewhere, strict=True)
        ]
    printer.table(columns, rows)


def title_of_names(items: Iterable[FailedMessage]) -> str:
    """Return the title of the column of `name_of`."""
    match {bool(item.get("message_type")) for item in items}:
        case kinds if kinds == {True, False}:
            return "message type or id"
        case kinds if kinds == {False}:
            return "message id"
        case _:
            return "message type"


def name_of(item: FailedMessage) -> object:
    """Return its type, or else the sender's id: without a type all lines would look alike."""
    return item.get("message_type") or item.get("message_id")


def show_message(printer: Printer, found: FailedMessageDetails) -> None:
    """Print everything about one message, except its body."""
    printer.sheet(_facts(found))
    exception = found["exception"]
    printer.block("exception message", exception["message"])
    printer.block("stack trace", exception["stack_trace"])
    attempts = found["processing_attempts"]
    shown: Mapping[str, Mapping[str, object]] = {
        "properties": found["properties"],
        "headers": _headers(found),
    }
    for title, values in shown.items():
        if values:
            printer.heading(title)
            printer.sheet({name: _cut(str(value)) for name, value in values.items()})
    printer.heading("attempts")
    _show_attempts(printer, attempts)
    if len(attempts) >= _MOST_ATTEMPTS:
        whole = f"retrier errors history {short_id(found['id'])} --attempts"
        printer.note(f"the newest {len(attempts)} attempts; all: `{whole}`")
    printer.heading("groups")
    printer.table(
        _GROUPS, [(short_id(g["id"]), g["type"], g["title"]) for g in found["failure_groups"]]
    )


def _headers(found: FailedMessageDetails) -> Mapping[str, str]:
    """Return the headers of the newest failure that has some."""
    attempts = found["processing_attempts"]
    return next((each["headers"] or {} for each in attempts if "headers" in each), {})


def _show_attempts(printer: Printer, attempts: Sequence[ProcessingAttempt]) -> None:
    """Print the failures, with their hosts if any of them tells one."""
    columns: Sequence[Column] = _ATTEMPTS
    lines = [_attempt(each) for each in attempts]
    if any("host" in each for each in attempts):
        columns = (*columns[:-1], Column(title="host", flexible=True), columns[-1])
        hosts = [each.get("host", "") for each in attempts]
        lines = [(*line[:-1], host, line[-1]) for line, host in zip(lines, hosts, strict=True)]
    printer.table(columns, lines)


def _row(item: FailedMessage) -> tuple[object, ...]:
    return (
        short_id(item["id"]),
        _status(item),
        minute(item["time_of_failure"]),
        item["number_of_processing_attempts"],
        item["queue_address"],
        name_of(item),
        _error(item["exception"]),
    )


def _destination(item: FailedMessage) -> str | None:
    """Return where its retry goes, if it is not the queue where it failed."""
    destination = item["destination"]
    if not destination:
        return "not known"
    return None if destination == item["queue_address"] else destination


def _status(item: FailedMessage) -> str:
    """Return the status; a resolved message also says on what evidence, and a dead one that it is."""
    disposition = item["disposition"]
    more = item.get("resolution") or (disposition if disposition != _MANUAL else None)
    return f"{item['status']} ({more})" if more else str(item["status"])


_MANUAL = "manual"


def _error(exception: ExceptionDetails) -> str:
    """Return type and message; without any of them what the title of its group says."""
    parts = (exception.get("exception_type"), exception["message"])
    return ": ".join(part for part in parts if part) or NO_REASON


def _attempt(attempt: ProcessingAttempt) -> tuple[object, ...]:
    details = attempt["failure_details"]
    queue = details["address_of_failing_endpoint"]
    return minute(attempt["attempted_at"]), queue, _error(details["exception"])


def _facts(found: FailedMessageDetails) -> dict[str, object]:
    claim = found.get("claim")
    return {
        "id": found["id"],
        "status": found["status"],
        **_decision(found),
        "waits because": found.get("waits_because"),
        "resolution": found.get("resolution"),
        "queue": found["queue_address"],
        "destination": _destination(found),
        "to send it": None
        if found["destination"]
        else "name a queue (retrier retry --destination), or redirect its queue (retrier redirects set)",
        "endpoint": found["receiving_endpoint"]["name"],
        "host": found["receiving_endpoint"]["host"] or None,
        "process": found.get("process"),
        "node": found.get("node"),
        "message type": found.get("message_type"),
        "message id": found.get("message_id") or _NAMELESS,
        "exception type": found["exception"].get("exception_type"),
        "error": None if any(found["exception"].values()) else NO_REASON,
        "first failure": moment(found["first_failure"]),
        "last failure": _last_failure(found),
        "attempts": found["number_of_processing_attempts"],
        "failure count": found["failure_count"],
        "error queue": found["error_queue"],
        "dialect": found["dialect"],
        "body": f"{found['body_size']:,} bytes {found.get('content_type') or ''}".strip(),
        "packed": _packed(found),
        "maybe copy of": found.get("maybe_copy_of"),
        "carries the stamps of": found.get("derived_from"),
        "edited version of": found.get("edit_of"),
        "edits": "; ".join(map(_edit, found.get("edits") or ())) or None,
        "its edited version failed": ", ".join(found.get("edited_versions") or ()) or None,
        "stream": found.get("stream"),
        "place in its stream": _place(found),
        **{f"{PREFIX}{name}": value for name, value in (found.get("fields") or {}).items()},
        "its stamps are on": ", ".join(found.get("derived") or ()) or None,
        "retry": _claim(claim) if claim else None,
        "sent to": found.get("sent_to"),
    }


def _edit(edit: Edit) -> str:
    """Say of one edit by whom it is, and what became of it."""
    because = f", {edit['reason']}" if "reason" in edit else ""
    state = edit["state"].replace("_", " ")
    return f"{state}{because} (by {edit['who']}, {minute(edit['asked_at'])})"


def _place(found: FailedMessageDetails) -> str | None:
    """Say what the sender states of its place in the stream; None if it states nothing."""
    unread = found.get("stream_position_unread")
    if unread is not None:
        return f"{unread!r} is neither a number nor a time: it goes by the order of first failures"
    return found.get("stream_position")


def _decision(found: FailedMessageDetails) -> dict[str, object]:
    """Say what was decided about it, by which rule, and what its failure is classified under."""
    why = found.get("disposition_reason")
    words = f": {why}" if why else ""
    decided: dict[str, object] = {"why": why}
    if found["disposition"] == "scheduled":
        at = moment(found["retry_at"])
        # Whatever holds it is told beside: the time says when it may go, and may have passed.
        when = "due to be tried again at" if "waits_because" in found else "will be tried again at"
        decided = {"decision": f"{when} {at}{words}"}
    elif found["disposition"] == "dead":
        # Only a further failure has changed it since, and then its words say so.
        fresh = why is None or not why.endswith(AGAIN)
        since = f" since {moment(found['last_modified'])}" if fresh else ""
        decided = {"decision": f"dead{since}{words}"}
    return {**decided, "policy": found.get("policy"), "reason": found.get("reason")}


def _last_failure(found: FailedMessageDetails) -> str:
    shown = moment(found["time_of_failure"])
    newest = [each for each in found["processing_attempts"] if "headers" in each]
    known = all("time_of_failure" in each["failure_details"] for each in newest)
    return shown if known else f"{shown} (when it was received: the failure gives no time)"


def _claim(claim: Claim) -> str:
    """Describe the progress of the retry that has claimed the message."""
    if "forwarded_at" in claim:
        state = f"forwarded at {moment(claim['forwarded_at'])}, no outcome yet"
    elif claim["in_doubt"]:
        state = f"in doubt: sent perhaps, since {moment(claim['sending_since'])}"
    else:
        state = "claimed, not sent yet"
    return f"{state}; operation {claim['operation_id']}"


def _cut(value: object) -> str:
    text = one_line(value)
    return text if len(text) <= _LONGEST_HEADER else text[:_LONGEST_HEADER] + "..."


app = make_app("Look at failed messages.")


class Status(StrEnum):
    """The statuses of a failed message, as the API calls them; dead ones are unresolved."""

    UNRESOLVED = "unresolved"
    RETRY_ISSUED = "retryIssued"
    RESOLVED = "resolved"
    ARCHIVED = "archived"
    DEAD = "dead"


class SortKey(StrEnum):
    """The keys by which a list can be sorted."""

    ID = "id"
    MESSAGE_ID = "message_id"
    MESSAGE_TYPE = "message_type"
    STATUS = "status"
    TIME_SENT = "time_sent"
    MODIFIED = "modified"
    TIME_OF_FAILURE = "time_of_failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFilters(Conditions):
    """Which messages are listed: those that match all options given."""

    status: Annotated[
        list[Status] | None,
        typer.Option(
            "--status",
            parser=one_of(Status),
            metavar="STATUS",
            help=f"In this status: {', '.join(Status)}; may be given again, dead aside.",
        ),
    ] = None
    archived_by: Annotated[
        str | None,
        typer.Option("--archived-by", metavar="ID", help="Archived by this archive operation."),
    ] = None
    message_id: Annotated[
        str | None,
        typer.Option("--message-id", metavar="ID", help="With exactly this id of its sender."),
    ] = None
    view: Annotated[
        str | None,
        typer.Option(
            "--view", metavar="NAME", help="As this saved view says; other options come on top."
        ),
    ] = None

    def params(self, api: ApiClient) -> dict[str, str]:
        """Return the query parameters of the API. Raises BadParameter, RequestRefused."""
        more = {
            "status": ",".join(self.status or ()),
            "archived_by": find_archive_id(api, self.archived_by) if self.archived_by else None,
            "message_id": self.message_id,
        }
        parts = {name: str(value) for name, value in self.resolved(api).items()}
        own = parts | {name: value for name, value in more.items() if value}
        return find_conditions(api, self.view) | own if self.view else own


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOrder:
    """How the list is sorted, and whether only ids are printed."""

    sort: Annotated[
        SortKey,
        typer.Option(
            "--sort",
            parser=one_of(SortKey),
            metavar="KEY",
            help=f"What it is sorted by: {', '.join(SortKey)}.",
        ),
    ] = SortKey.TIME_OF_FAILURE
    ascending: Annotated[
        bool, typer.Option("--ascending", help="The smallest or oldest first.")
    ] = False
    ids: Annotated[
        bool, typer.Option("--ids", help="Print whole ids only, one per line, for a pipe.")
    ] = False

    def params(self) -> dict[str, str]:
        """Return the query parameters of the API."""
        return {"sort": self.sort, "direction": "asc" if self.ascending else "desc"}


MessageId = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        autocompletion=offer_messages,
        help="The id, its first 8 characters or more, or the message id.",
    ),
]


@app.command(
    "list",
    epilog="""
    \b
    Examples:
      retrier errors list --status unresolved --queue orders
      retrier errors list --group 5a1d0b7e --limit 1000
      retrier errors list --exception-type Shop.OutOfStock --ids | retrier retry -
    """,
)
@command
def list_errors(
    ctx: typer.Context,
    wanted: MessageFilters,
    order: ListOrder,
    pages: FollowedPages,
    service: CalledService,
) -> None:
    """List failed messages, the newest failure first."""
    printer = service.printer(ctx)
    with service.open(ctx) as api:
        conditions = wanted.params(api)
        if order.ids and not service.as_json:
            printer.lines(pages.ids(api, "errors", **order.params(), **conditions))
            return
        statuses: Counter[str] = Counter()
        found = pages.walk(api, FailedMessage, "errors", **order.params(), **conditions)
        nothing = "no failed message matches" if conditions else "there is no failed message"
        pages.show(printer, _counting(found, statuses), show_messages, "message", nothing)
        if service.as_json or pages.ndjson:
            return
        if "status" not in conditions:
            note_settled(printer, statuses)
        note_imports(printer, api)


def _counting(
    found: Iterator[Listing[FailedMessage]], statuses: Counter[str]
) -> Iterator[Listing[FailedMessage]]:
    for page in found:
        statuses.update(each["status"] for each in page.items)
        yield page


@app.command(
    epilog="""
    \b
    Examples:
      retrier errors show 3f2b91c0
      retrier errors show 3f2b91c0 --json | jq .processing_attempts
    """
)
@command
def show(ctx: typer.Context, message_id: MessageId, service: CalledService) -> None:
    """Show one failed message.

    Where, when and why it failed, its headers, attempts and groups, and the retry under way.
    """
    printer = service.printer(ctx)
    with service.open(ctx) as api:
        found = api.find(FailedMessageDetails, "errors", find_one_message(api, message_id))
    printer.show(found, _show_with_advice)


def _show_with_advice(printer: Printer, found: FailedMessageDetails) -> None:
    show_message(printer, found)
    advise_on_missing_queue(printer, found.get("disposition_reason"), found["id"])


@app.command(
    epilog="""
    \b
    Examples:
      retrier errors body 3f2b91c0
      retrier errors body 3f2b91c0 --output order.json
      retrier errors body 3f2b91c0 --unpacked | jq .
    """
)
@command
def body(
    ctx: typer.Context,
    message_id: MessageId,
    service: CalledService,
    output: Output = None,
    *,
    unpacked: Annotated[
        bool,
        typer.Option("--unpacked", help="Without the gzip or deflate around it, 1 MiB at most."),
    ] = False,
) -> None:
    """Print the body of a failed message, byte for byte.

    On a terminal its control characters are written out, and a body that is no text is refused.
    """
    printer = service.printer(ctx)
    with service.open(ctx) as api:
        # Not every text is a unique id: bodies are also found by message id, which can be any text.
        whole = find_message_id(api, message_id) if is_short(message_id) else message_id
        data, content_type, told = api.body("messages", whole, "body", unpacked=unpacked)
    if told:
        printer.note(told)
    if output is not None:
        write_bytes(output, data)
        printer.note(f"{counted(len(data), 'byte')} written to {output}")
    if service.as_json:
        how = {"unpacked": told} if told else {}
        content = {"content_type": content_type, **how, **_in_json(data, output)}
        printer.document({"id": whole, **content})
    elif output is None:
        _print(printer, data)


def _packed(found: FailedMessageDetails) -> str | None:
    """Return how its body is packed, and how it is read."""
    packed = packed_as(found["properties"], _headers(found))
    if packed not in PACKED:
        return None
    return (
        f"{packed}: `retrier errors body {short_id(found['id'])} --unpacked` prints what is in it"
    )


@app.command(
    epilog="""
    \b
    Examples:
      retrier errors hosts
      retrier errors list --host box-7
    """
)
@command
def hosts(ctx: typer.Context, service: CalledService) -> None:
    """Count unresolved messages by their host."""
    printer = service.printer(ctx)
    with service.open(ctx) as api:
        counts = api.find(Summary, "errors", "summary")["Hosts"]
    found = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    printer.show([{"host": host, "count": count} for host, count in found], _show_hosts)


def _show_hosts(printer: Printer, found: Sequence[Mapping[str, object]]) -> None:
    if found:
        printer.table(_HOSTS, [(f"{each['count']:,}", each["host"]) for each in found])
    else:
        printer.note("no unresolved message tells on which host it failed")


_HOSTS = (Column(title="messages", number=True), Column(title="host", flexible=True))


def _in_json(data: bytes, output: Path | None) -> dict[str, object]:
    if output is not None:
        return {"size": len(data), "output": str(output)}
    try:
        return {"size": len(data), "encoding": "utf-8", "body": data.decode()}
    except UnicodeDecodeError:
        return {"size": len(data), "encoding": "base64", "body": b64encode(data).decode()}


def _print(printer: Printer, data: bytes) -> None:
    if not printer.out.is_terminal:
        printer.raw(data)
        return
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise RequestRefused(
            f"The body is no text ({counted(len(data), 'byte')}): write it to a file with "
            "--output, or into a pipe."
        ) from None
    printer.text(text)
