"""Failed messages and groups as tables and sheets."""

from collections.abc import Iterable, Sequence

from retrier.cli.api_client import Json
from retrier.cli.printer import Column, Printer, minute, moment, one_line, short_id
from retrier.domain.classifiers import NO_REASON
from retrier.domain.headers import UNIQUE_MESSAGE_ID

_LONGEST_HEADER = 300
"""Characters of a header's value that are shown; --json shows the whole value."""

_COLUMNS = (
    Column(title="id"),
    Column(title="status"),
    Column(title="failed (UTC)"),
    Column(title="attempts", number=True),
    Column(title="queue", flexible=True),
)
_DESTINATION = Column(title="destination", flexible=True)
"""Behind the queue, and only where a retry of what is listed goes elsewhere."""
_ERROR = Column(title="error", flexible=True)
_ATTEMPTS = (
    Column(title="failed (UTC)"),
    Column(title="queue", flexible=True),
    Column(title="error", flexible=True),
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


def show_messages(printer: Printer, items: Sequence[Json]) -> None:
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


def title_of_names(items: Iterable[Json]) -> str:
    """Return the title of the column of `name_of`."""
    match {bool(item.get("message_type")) for item in items}:
        case kinds if kinds == {True, False}:
            return "message type or id"
        case kinds if kinds == {False}:
            return "message id"
        case _:
            return "message type"


def name_of(item: Json) -> object:
    """Return its type, or else the sender's id: without a type all lines would look alike."""
    return item.get("message_type") or item.get("message_id")


def show_message(printer: Printer, found: Json) -> None:
    """Print everything about one message, except its body."""
    printer.sheet(_facts(found))
    exception = found["exception"]
    printer.block("exception message", exception["message"])
    printer.block("stack trace", exception["stack_trace"])
    attempts = found["processing_attempts"]
    headers: Json = next((each["headers"] for each in attempts if "headers" in each), {})
    if headers:
        printer.heading("headers")
        printer.sheet({name: _cut(value) for name, value in headers.items()})
    printer.heading("attempts")
    _show_attempts(printer, attempts)
    printer.heading("groups")
    printer.table(
        _GROUPS, [(short_id(g["id"]), g["type"], g["title"]) for g in found["failure_groups"]]
    )


def _show_attempts(printer: Printer, attempts: Sequence[Json]) -> None:
    """Print the failures, with their hosts if any of them tells one."""
    columns: Sequence[Column] = _ATTEMPTS
    lines = [_attempt(each) for each in attempts]
    if any("host" in each for each in attempts):
        columns = (*columns[:-1], Column(title="host", flexible=True), columns[-1])
        hosts = [each.get("host", "") for each in attempts]
        lines = [(*line[:-1], host, line[-1]) for line, host in zip(lines, hosts, strict=True)]
    printer.table(columns, lines)


def _row(item: Json) -> tuple[object, ...]:
    return (
        short_id(item["id"]),
        _status(item),
        minute(item["time_of_failure"]),
        item["number_of_processing_attempts"],
        item["queue_address"],
        name_of(item),
        _error(item["exception"]),
    )


def _destination(item: Json) -> str | None:
    """Return where its retry goes, if it is not the queue where it failed."""
    destination = item["destination"]
    return None if destination == item["queue_address"] else destination


def _status(item: Json) -> str:
    """Return the status; a resolved message also says on what evidence, and a dead one that it is."""
    disposition = item["disposition"]
    more = item.get("resolution") or (disposition if disposition != _MANUAL else None)
    return f"{item['status']} ({more})" if more else str(item["status"])


_MANUAL = "manual"


def _error(exception: Json) -> str:
    """Return type and message; without any of them what the title of its group says."""
    parts = (exception.get("exception_type"), exception["message"])
    return ": ".join(part for part in parts if part) or NO_REASON


def _attempt(attempt: Json) -> tuple[object, ...]:
    details = attempt["failure_details"]
    queue = details["address_of_failing_endpoint"]
    return minute(attempt["attempted_at"]), queue, _error(details["exception"])


def _facts(found: Json) -> dict[str, object]:
    return {
        "id": found["id"],
        "status": found["status"],
        **_decision(found),
        "waits because": found.get("waits_because"),
        "resolution": found.get("resolution"),
        "queue": found["queue_address"],
        "destination": _destination(found),
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
        "maybe copy of": found.get("maybe_copy_of"),
        "carries the stamps of": found.get("derived_from"),
        "stream": found.get("stream"),
        "place in its stream": _place(found),
        "its stamps are on": ", ".join(found.get("derived", ())) or None,
        "retry": _claim(found["claim"]) if "claim" in found else None,
        "sent to": found.get("sent_to"),
    }


def _place(found: Json) -> str | None:
    """Say what the sender states of its place in the stream; None if it states nothing."""
    unread = found.get("stream_position_unread")
    if unread is not None:
        return f"{unread!r} is neither a number nor a time: it goes by the order of first failures"
    stated: str | None = found.get("stream_position")
    return stated


def _decision(found: Json) -> dict[str, object]:
    """Say what was decided about it, by which rule, and what its failure is classified under."""
    why = found.get("disposition_reason")
    words = f": {why}" if why else ""
    decided: dict[str, object] = {"why": why}
    if found["disposition"] == "scheduled":
        at = moment(found["retry_at"])
        decided = {"decision": f"will be tried again at {at}{words}"}
    elif found["disposition"] == "dead":
        # Nothing but its death has changed it since: any other change would end it.
        decided = {"decision": f"dead since {moment(found['last_modified'])}{words}"}
    return {**decided, "policy": found.get("policy"), "reason": found.get("reason")}


def _last_failure(found: Json) -> str:
    shown = moment(found["time_of_failure"])
    newest = [each for each in found["processing_attempts"] if "headers" in each]
    known = all("time_of_failure" in each["failure_details"] for each in newest)
    return shown if known else f"{shown} (when it was received: the failure gives no time)"


def _claim(claim: Json) -> str:
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


_GROUP_COLUMNS = (
    Column(title="id"),
    Column(title="unresolved", number=True),
    Column(title="last failure (UTC)"),
    Column(title="retry"),
    Column(title="title", flexible=True),
)

_COMMENT_COLUMNS = (
    Column(title="id"),
    Column(title="written (UTC)"),
    Column(title="by"),
    Column(title="comment", flexible=True),
)


_WAITS = Column(title="waits because", flexible=True)


def show_groups(printer: Printer, items: Sequence[Json]) -> None:
    """Print one line per group; what is scheduled or dead, or waits, only where a group has any."""
    apart = [name for name in ("scheduled", "dead") if any(item[name] for item in items)]
    more = [Column(title=name, number=True) for name in apart]
    columns = [*_GROUP_COLUMNS[:2], *more, *_GROUP_COLUMNS[2:]]
    rows = [_group_row(item, apart) for item in items]
    waits = [item.get("waits_because") for item in items]
    if any(waits):
        columns = [*columns, _WAITS]
        rows = [(*row, why) for row, why in zip(rows, waits, strict=True)]
    printer.table(columns, rows)
    if commented := [item for item in items if "comment" in item]:
        printer.heading("comments")
        printer.table(_COMMENT_COLUMNS, [_comment_row(item) for item in commented])


def _comment_row(item: Json) -> tuple[object, ...]:
    return short_id(item["id"]), minute(item["commented_at"]), item["commented_by"], item["comment"]


def _group_row(item: Json, apart: Iterable[str]) -> tuple[object, ...]:
    last = minute(item["last"]) if "last" in item else ""
    counts = (f"{item[name]:,}" for name in ("count", *apart))
    return short_id(item["id"]), *counts, last, _retry(item), item["title"]


def _retry(item: Json) -> str:
    status = item["operation_status"]
    if status == "None":
        return ""
    return f"{status.lower()} {item['operation_progress']:.0%}"
