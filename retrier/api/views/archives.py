"""Archive operations, and the answers to acts, as JSON."""

from collections.abc import Mapping
from datetime import datetime

from retrier.api.answers import Json, present, time
from retrier.domain.archive_operation import (
    Act,
    ArchiveOperation,
    ArchiveOperationState,
    parts_to_store,
)
from retrier.domain.selection import BOUNDS
from retrier.store.queries.archive_previews import PlannedAct

_NAMES = {Act.ARCHIVE: "archived", Act.UNARCHIVE: "unarchived", Act.RESOLVE: "resolved"}


def outcome(found: ArchiveOperation) -> Json:
    """Show how many messages changed so far, why others did not, and the operation."""
    return {
        _NAMES[found.act]: found.done,
        "skipped": _reasons(found.skipped_because),
        "operation_id": found.operation_id,
        "state": found.state,
        "total": found.total,
    }


def archive_operation(shown: ArchiveOperation) -> Json:
    """Show an operation: what was asked for, by whom, and how far it is."""
    return present(
        {
            "id": shown.operation_id,
            "act": shown.act,
            "originator": shown.originator,
            "requested_by": shown.requested_by,
            "why": shown.why,
            "selection": _selection(shown),
            "state": shown.state,
            "reason": shown.reason,
            "total": shown.total,
            "done": shown.done,
            "skipped": shown.skipped,
            "skipped_because": _reasons(shown.skipped_because),
            "remaining": shown.remaining,
            "undo_of": shown.undo_of,
            **_times(shown),
        }
    )


def archive_details(shown: ArchiveOperation, refused: Mapping[str, str]) -> Json:
    """Show an operation, and why named ids were left as they were."""
    left = [{"id": key, "reason": why} for key, why in refused.items()]
    return archive_operation(shown) | {"skipped_messages": left}


def archive_preview(found: PlannedAct) -> Json:
    """Show what an act would change, why it would leave the rest as it is, and the plan to name."""
    counted = found.preview
    skipped = _reasons(counted.skipped_because)
    return {"total": counted.total, "skipped": skipped, "plan": found.plan.token}


_STATUSES = {
    ArchiveOperationState.WAITING: "ArchiveStarted",
    ArchiveOperationState.RUNNING: "ArchiveProgressing",
    ArchiveOperationState.COMPLETED: "ArchiveCompleted",
}


def archive_of_group(shown: ArchiveOperation) -> Json:
    """Show the archive of a group as ServiceControl does."""
    settled = shown.total - shown.remaining
    completed = shown.state is ArchiveOperationState.COMPLETED
    return present(
        {
            "operation_id": shown.operation_id,
            "operation_status": _STATUSES[shown.state],
            "operation_progress": round(settled / shown.total, 2) if shown.total else 1.0,
            "operation_remaining_count": shown.remaining,
            "operation_messages_completed_count": settled,
            "operation_start_time": time(shown.started_at),
            "operation_completion_time": time(shown.completed_at),
            "need_user_acknowledgement": completed,
        }
    )


def _times(shown: ArchiveOperation) -> Json:
    times: dict[str, datetime | None] = {
        "created_at": shown.created_at,
        "started_at": shown.started_at,
        "completed_at": shown.completed_at,
        "acknowledged_at": shown.acknowledged_at,
        "modified_at": shown.modified_at,
    }
    return {name: time(moment) for name, moment in times.items()}


def _reasons(because: Mapping[str, int]) -> list[Json]:
    return [{"reason": reason, "count": count} for reason, count in sorted(because.items())]


def _selection(shown: ArchiveOperation) -> Json:
    """Show a selection. Of ids only the number is shown: a list can have 100,000."""
    named = {} if shown.selection.ids is None else {"ids": shown.total}
    parts = parts_to_store(shown.selection)
    return {**named, **{name: part for name, part in parts.items() if name not in BOUNDS}}
