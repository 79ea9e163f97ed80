"""Ledger, event log, redirects as JSON (ServiceControl: EventLogItem, RedirectsQueryModel)."""

from retrier.api.answers import Json, present, time
from retrier.domain.failed_message import FailedMessageStatus
from retrier.store.queries.event_log import LoggedEvent
from retrier.store.queries.monitoring import KINDS_OF_DELIVERY, Ledger
from retrier.store.queries.redirects import Redirect


def ledger(read: Ledger) -> Json:
    """Show both sums, term by term, and the differences: 0 when everything adds up."""
    kinds = {kind: read.entry(kind) for kind in KINDS_OF_DELIVERY}
    stored = {status.value: read.stored.get(status, 0) for status in FailedMessageStatus}
    return {
        "deliveries": {
            "taken_off": read.entry("taken_off"),
            "reimported": read.entry("reimported"),
            **kinds,
            "difference": read.uncounted_deliveries,
        },
        "messages": {
            "new": read.entry("new"),
            **stored,
            "deleted": read.entry("deleted"),
            "difference": read.missing_messages,
        },
    }


_SEVERITIES = {
    "retry_returned": "error",
    "failed_import": "error",
    "retry_skipped": "warning",
    "breaker_opened": "warning",
    "batch_held_back": "warning",
    "own_copy_came_back": "warning",
    "copy_of_another_came": "warning",
    "import_kept": "warning",
    "import_not_sent": "warning",
    "import_in_doubt": "error",
    "batch_adopted": "warning",
    "batch_moved": "warning",
    "sent_again": "warning",
    "archive_refused": "warning",
    "unarchive_refused": "warning",
    "resolve_refused": "warning",
}


def event(logged: LoggedEvent) -> Json:
    """Show one event; if it is about a message, that is the first of `related_to`."""
    of_message = logged.unique_message_id is not None
    related = {
        "message": logged.unique_message_id,
        "operation": logged.operation_id,
        "batch": logged.batch_id,
    }
    return present(
        {
            "id": str(logged.event_id),
            "kind": logged.kind,
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


def redirect(shown: Redirect) -> Json:
    """Show one redirect."""
    return {
        "message_redirect_id": shown.redirect_id,
        "from_physical_address": shown.from_queue,
        "to_physical_address": shown.to_queue,
        "last_modified": time(shown.modified_at),
    }
