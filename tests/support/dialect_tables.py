"""The tables of docs/dialects.md, made from what the dialects declare."""

from retrier.domain.dialects import DIALECTS

FIELDS = {
    "queue": "where it failed",
    "endpoint": "endpoint",
    "exception_type": "exception type",
    "exception_message": "exception message",
    "stack_trace": "stack trace",
    "failure_reason": "reason",
    "time_of_failure": "time of failure",
    "attempts_reported": "attempts",
    "message_type": "message type",
    "message_id": "message id",
    "time_sent": "time sent",
    "host": "host",
    "node": "node",
}


def overview() -> list[str]:
    """Return a line for each dialect, in the order in which they are tried."""
    head = [
        "| `dialect` | library | recognised by | no retry carries | a retry that fails again |",
        "|---|---|---|---|---|",
    ]
    lines = []
    for each in DIALECTS:
        told = each.declared
        removed = ", ".join(f"`{name}`" for name in (*told.removes, *told.removes_own))
        columns = (
            f"`{each.name}`",
            told.library,
            told.recognised_by,
            removed or "-",
            told.comes_back,
        )
        lines.append(f"| {' | '.join(columns)} |")
    return head + lines


def feeds() -> list[str]:
    """Return a line for each fact of each dialect."""
    lines = ["| `dialect` | fact | where it stands |", "|---|---|---|"]
    for each in DIALECTS:
        for name, place in each.declared.feeds.items():
            lines.append(f"| `{each.name}` | {FIELDS[name]} | {place} |")
    return lines
