"""Operations, batches, and the answers to acts, as JSON."""

from dataclasses import asdict
from datetime import datetime

from retrier.api.answers import Json, camel, present, time
from retrier.api.views.messages import claim
from retrier.domain.message_actions import Act
from retrier.domain.retry_operation import RetryOperation, RetryOperationState
from retrier.domain.selection import chosen_parts
from retrier.gateway import AskedAgain, Outcome
from retrier.store.queries.batches import BatchCount, BatchDetails
from retrier.store.queries.operations import OperationDetails


def operation(shown: RetryOperation) -> Json:
    """Show an operation: what was asked for, by whom, and how far it is."""
    return present(
        {
            "id": shown.operation_id,
            "retry_type": camel(shown.retry_type),
            "originator": shown.originator,
            "requested_by": shown.requested_by,
            "why": shown.why,
            "selection": _selection(shown),
            "state": camel(shown.state),
            "reason": shown.reason,
            "total": shown.total,
            "forwarded": shown.forwarded,
            "skipped": shown.skipped,
            "failed": shown.failed,
            "remaining": shown.remaining,
            "batches": shown.batches,
            "not_before": time(shown.not_before),
            "created_at": time(shown.created_at),
            "started_at": time(shown.started_at),
            "completed_at": time(shown.completed_at),
            "modified_at": time(shown.modified_at),
        }
    )


def details(found: OperationDetails) -> Json:
    """Show an operation with its current batch, an estimated end, and why ids were skipped."""
    more = {
        "batch_id": found.batch_id,
        "estimated_end": time(_estimated_end(found.operation, found.at)),
        "skipped_messages": [{"id": key, "reason": why} for key, why in found.skipped.items()],
    }
    return operation(found.operation) | present(more)


def _selection(shown: RetryOperation) -> Json:
    """Show a selection. Of ids only the number is shown: a list can have 100,000."""
    named = {} if shown.selection.ids is None else {"ids": shown.total}
    return {**named, **chosen_parts(shown.selection)}


def _estimated_end(shown: RetryOperation, at: datetime) -> datetime | None:
    """Assume the remaining messages go as fast as those done; None before the first is done."""
    done = shown.total - shown.remaining
    is_moving = shown.state is RetryOperationState.FORWARDING and done > 0
    if not is_moving or shown.started_at is None or shown.remaining == 0:
        return None
    return at + (at - shown.started_at) / done * shown.remaining


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


_NAMES = {
    Act.ARCHIVE: "archived",
    Act.UNARCHIVE: "unarchived",
    Act.RESOLVE: "resolved",
    Act.RELEASE: "released",
}


def outcome(act: Act, came_to: Outcome) -> Json:
    """Show how many messages changed, and why the others did not."""
    skipped = [
        {"reason": str(reason), "count": number} for reason, number in came_to.refused.items()
    ]
    return {_NAMES[act]: came_to.done, "skipped": skipped}


def asked_again(again: AskedAgain) -> Json:
    """Show the operations; `operation_id` is the first one, as in the answer to any retry."""
    first = {"operation_id": again.operation_ids[0]} if again.operation_ids else {}
    return {**first, "total": again.total, "operations": list(again.operation_ids)}
