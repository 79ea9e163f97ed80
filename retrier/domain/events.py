"""The event log as people ask for it: its kinds, which of them are routine, and who is no person."""

from collections.abc import Iterable

from retrier.domain.parameters import nearest

KINDS = (
    "access_refused",
    "acknowledged",
    "approval_lapsed",
    "approval_refused",
    "approved",
    "archive_asked",
    "archive_completed",
    "archive_refused",
    "asked_for_approval",
    "batch_adopted",
    "batch_forwarded",
    "batch_held_back",
    "batch_moved",
    "batch_released",
    "batch_staged",
    "breaker_closed",
    "breaker_half_opened",
    "breaker_hand_ended",
    "breaker_opened",
    "canary_failed",
    "canary_passed",
    "canary_sent",
    "cancel_asked",
    "copy_of_another_came",
    "dead_refused",
    "edit_dropped",
    "edit_in_doubt",
    "edit_refused",
    "edit_sent",
    "edited_version_failed",
    "failed_after_last_word",
    "failed_import",
    "group_comment_deleted",
    "group_commented",
    "import_deleted",
    "import_in_doubt",
    "import_kept",
    "import_not_sent",
    "import_read_again",
    "import_sent",
    "import_stamped",
    "logged_in",
    "logged_out",
    "message_archived",
    "message_dead",
    "message_declared_dead",
    "message_edited",
    "message_released",
    "message_resolved",
    "message_unarchived",
    "messages_archived",
    "messages_resolved",
    "messages_unarchived",
    "operation_cancelled",
    "operation_completed",
    "operation_paused",
    "operation_rate",
    "operation_resumed",
    "own_copy_came_back",
    "policies_wrong",
    "recovery_begun",
    "recovery_ended",
    "redirect_changed",
    "redirect_created",
    "redirect_deleted",
    "release_refused",
    "resolve_asked",
    "resolve_completed",
    "resolve_refused",
    "retention_swept",
    "retries_presumed",
    "retry_asked",
    "retry_released",
    "retry_returned",
    "retry_scheduled",
    "retry_skipped",
    "revive_refused",
    "sent_again",
    "stream_released",
    "token_created",
    "token_revoked",
    "unarchive_asked",
    "unarchive_completed",
    "unarchive_refused",
    "view_deleted",
    "view_saved",
)
"""What can be asked for; a test compares them with the documentation."""

ROUTINE = frozenset(
    {
        "batch_forwarded",
        "batch_staged",
        "breaker_half_opened",
        "import_stamped",
        "retention_swept",
    }
)
"""What the service does all the time, and what another event tells the end of.

A retry of 50 messages a second has two of them for each ten messages: between them nobody would
find who asked for what.
"""

SERVICE = "retrier"
"""Who did what no person asked for."""
RETENTION = "retention"
"""Who deleted what is older than the settings keep it."""
POLICIES = "policies"
"""Who asks for the retries that policies decide."""
NO_PEOPLE = frozenset({SERVICE, RETENTION, POLICIES})
"""Who is no person. The names of people stand there with the address from which they asked."""


def read_kinds(text: str) -> frozenset[str]:
    """Return the kinds in a list with commas."""
    return frozenset(each for each in text.replace(" ", "").split(",") if each)


def find_wrong_kind(kinds: Iterable[str]) -> str | None:
    """Say of the first kind that does not exist that it is none, with the nearest; None if all do."""
    for kind in sorted(kinds):
        if kind not in KINDS:
            near = nearest(kind, KINDS)
            perhaps = f"perhaps {near} is meant; " if near else ""
            shown = "".join(each if each.isprintable() else " " for each in kind[:_LONGEST_SHOWN])
            return f"No event has the kind {shown}; {perhaps}a kind is one of: {', '.join(KINDS)}."
    return None


_LONGEST_SHOWN = 64
