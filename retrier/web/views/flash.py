"""What was just done, told at the top of the next page; of an archive with its undo."""

from dataclasses import dataclass

from retrier.domain.archive_operation import Act, ArchiveOperation, ArchiveOperationState
from retrier.errors import DatabaseUnavailable
from retrier.store.engine.database import Database
from retrier.store.queries.archive_operations import find_archive_operation
from retrier.store.queries.operations import find_operation
from retrier.web.wording import number, plural

_WORDS = {Act.ARCHIVE: "archived", Act.UNARCHIVE: "unarchived", Act.RESOLVE: "resolved"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Flash:
    """A sentence; `undo` is where a form takes it back, `link` where more is told of it.

    `live` is the key of a text that goes on telling how far it is.
    """

    text: str
    tone: str = "good"
    undo: str | None = None
    link: str | None = None
    live: str | None = None


def find_flash(db: Database, done: str) -> Flash | None:
    """Return what to tell of `done`: `retry:ID` or `archive:ID`, or one of the SENTENCES."""
    kind, _, key = done.partition(":")
    try:
        match kind:
            case "retry":
                return _of_retry(db, key)
            case "archive":
                return _of_archive(db, key)
            case _:
                return Flash(text=SENTENCES[done]) if done in SENTENCES else None
    except DatabaseUnavailable:
        return None


SENTENCES = {
    "breaker-closed": "The breaker is closed: its retries go again.",
    "breaker-opened": "The breaker is open: its messages wait until its time is over.",
    "breaker-unseen": "It is set. Nothing was ever sent there, and nothing has failed there: look "
    "whether the name is right.",
    "comment-deleted": "The comment is taken away.",
    "commented": "The comment is kept, for all to see.",
    "dead": "It is dead now: only a person's retry takes it.",
    "dismissed": "It is not shown any more: you have seen that it is over.",
    "paused": "It is paused: what is being sent is finished, and nothing more is begun.",
    "resumed": "It goes on.",
    "cancelled": "It is cancelled: what may have been sent already is finished, nothing else is sent.",
    "limited": "Its rate is changed.",
    "unlimited": "Its rate is lifted: it goes on as fast as possible.",
    "again": "Retries are asked for, in several operations: the newest of this list.",
    "nothing-pending": "Nothing of it was pending any more, so nothing was done.",
    "name": "Your name is shown with whatever you ask for from now on.",
    "nothing": "Nothing was selected, so nothing was done.",
    "unchanged": "Nothing was left that could be changed.",
    "released": "Released: it may be retried before the earlier messages of its stream.",
    "recovery-ended": "The recovery is over: what was sent long ago may be presumed to have succeeded.",
    "redirect-deleted": "The redirect is deleted.",
    "redirect-set": "The redirect is set. It holds for every retry that is sent from now on.",
}
"""What is told of acts that have no operation. Never text of the address: anybody may write one."""


def _of_retry(db: Database, operation_id: str) -> Flash | None:
    found = find_operation(db, operation_id)
    if found is None:
        return None
    shown = found.operation
    return Flash(
        text=f"Retry of {plural(shown.total, 'message')} asked for.",
        link=f"/operations/{shown.operation_id}",
        live=f"operation/{shown.operation_id}/text",
    )


def _of_archive(db: Database, operation_id: str) -> Flash | None:
    found = find_archive_operation(db, operation_id)
    if found is None:
        return None
    undo = f"/archive_operations/{found.operation_id}/undo" if found.act is Act.ARCHIVE else None
    open_still = found.state is not ArchiveOperationState.COMPLETED
    return Flash(
        text=_tell(found),
        undo=undo,
        tone="good" if found.done or open_still else "wait",
        link=f"/archive_operations/{found.operation_id}" if open_still else None,
    )


def _tell(found: ArchiveOperation) -> str:
    words = _WORDS.get(found.act, "changed")
    if found.state is not ArchiveOperationState.COMPLETED:
        return f"{number(found.done)} of {plural(found.total, 'message')} {words} so far."
    if not found.skipped_because:
        return f"{plural(found.done, 'message')} {words}."
    why = "; ".join(f"{number(n)}: {reason}" for reason, n in found.skipped_because.items())
    return f"{plural(found.done, 'message')} {words}. Left as they were, {why}."
