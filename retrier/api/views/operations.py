"""Operations, batches, and the answers to acts, as JSON."""

from dataclasses import asdict

from retrier.api.answers import Json, camel, present, time
from retrier.api.views.messages import claim
from retrier.domain.retry_operation import RetryOperation
from retrier.domain.schedule import Schedule
from retrier.domain.selection import chosen_parts
from retrier.domain.waiting import estimate_end, why_it_waits
from retrier.store.queries.batches import BatchCount, BatchDetails
from retrier.store.queries.operations import ListedOperations, OperationDetails


def operation(shown: RetryOperation, schedule: Schedule | None = None) -> Json:
    """Show an operation: what was asked for, by whom, and how far it is.

    Of the standing one also how much is scheduled, and when the next is due.
    """
    planned = schedule if shown.is_standing else None
    return present(
        {
            "id": shown.operation_id,
            "retry_type": camel(shown.retry_type),
            "originator": shown.originator,
            "requested_by": shown.requested_by,
            "why": shown.why,
            "selection": _selection(shown),
            "state": camel(shown.state),
            "cancel_asked": shown.cancel_asked,
            "reason": shown.reason,
            "limit": shown.limit,
            "destination": shown.destination,
            "rate": shown.rate,
            "drop_headers": list(shown.drop_headers) or None,
            "total": shown.total,
            "forwarded": shown.forwarded,
            "skipped": shown.skipped,
            "failed": shown.failed,
            "left_out": shown.left_out,
            "dead_left_out": shown.dead_left_out,
            "remaining": shown.remaining,
            "scheduled": None if planned is None else planned.scheduled,
            "next_due": None if planned is None else time(planned.next_at),
            "batches": shown.batches,
            "not_before": time(shown.not_before),
            "created_at": time(shown.created_at),
            "started_at": time(shown.started_at),
            "completed_at": time(shown.completed_at),
            "modified_at": time(shown.modified_at),
        }
    )


def listed(shown: RetryOperation, found: ListedOperations) -> Json:
    """Show an operation of a list, with why it waits."""
    why = why_it_waits(shown, found.at, found.schedule, found.obstacles)
    return operation(shown, found.schedule) | present({"waits_because": why})


def details(found: OperationDetails) -> Json:
    """Show an operation with its batch and its canary, why it waits, an estimate of its end ...

    ... and why ids were skipped.
    """
    shown = found.operation
    more = {
        "batch_id": found.batch_id,
        "waits_because": why_it_waits(shown, found.at, found.schedule, found.obstacles)
        or found.batch_reason,
        "canary": _canary(shown, found.came_back),
        "estimated_end": time(estimate_end(shown, found.at)),
        "skipped_messages": [{"id": key, "reason": why} for key, why in found.skipped.items()],
    }
    return operation(shown, found.schedule) | present(more)


def _canary(shown: RetryOperation, came_back: int | None) -> Json | None:
    """Show the messages that are sent first; `sent` are at most `size` of them."""
    canary = shown.canary
    if canary is None:
        return None
    return {
        "size": canary.size,
        "wait": canary.wait.total_seconds(),
        "limit": canary.most_back,
        "state": camel(canary.state),
        "sent": min(canary.size, shown.sent),
        "came_back": came_back,
    }


def _selection(shown: RetryOperation) -> Json:
    """Show a selection. Of ids only the number is shown: a list can have 100,000."""
    named = {} if shown.selection.ids is None else {"ids": shown.total}
    return {**named, **chosen_parts(shown.selection)}


def batch(counted: BatchCount) -> Json:
    """Show a batch and its claims counted."""
    shown = counted.batch
    times = {
        name: time(getattr(shown, name)) for name in ("not_before", "created_at", "modified_at")
    }
    counts = {
        "claims": counted.claims,
        "forwarded": counted.forwarded,
        "in_doubt": counted.in_doubt,
        "is_now_forwarding": counted.is_now_forwarding,
    }
    own = {**asdict(shown), **times, **counts, "id": shown.batch_id, "status": camel(shown.status)}
    return present({name: value for name, value in own.items() if name != "batch_id"})


def batch_details(found: BatchDetails) -> Json:
    """Show a batch, and those of its claims that are in doubt."""
    return batch(found.counted) | {"claims_in_doubt": [claim(each) for each in found.in_doubt]}
