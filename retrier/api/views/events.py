"""The event log as JSON (ServiceControl: EventLogItem)."""

from retrier.api.answers import Json, present, time
from retrier.store.queries.events import LoggedEvent

_SEVERITIES = {
    "retry_returned": "error",
    "failed_import": "error",
    "retry_skipped": "warning",
    "own_copy_came_back": "warning",
    "copy_of_another_came": "warning",
    "batch_moved": "warning",
    "archive_refused": "warning",
    "unarchive_refused": "warning",
    "resolve_refused": "warning",
}


def event(logged: LoggedEvent) -> Json:
    """Show one event; the first of `related_to` is the message it is about, if any."""
    of_message = logged.unique_message_id is not None
    related = {
        "message": logged.unique_message_id,
        "operation": logged.operation_id,
        "batch": logged.batch_id,
    }
    return present(
        {
            "id": str(logged.event_id),
            "description": logged.text,
            "severity": _SEVERITIES.get(logged.kind, "info"),
            "raised_at": time(logged.at),
            "related_to": [f"/{kind}/{key}" for kind, key in related.items() if key],
            "category": "MessageFailures" if of_message else "Recoverability",
            "event_type": "".join(word.capitalize() for word in logged.kind.split("_")),
            "who": logged.who,
            "details": logged.details,
        }
    )
