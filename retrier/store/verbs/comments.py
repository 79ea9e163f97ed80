"""Comments on groups: written, deleted, and swept when nothing is left to comment on."""

from sqlalchemy import select

from retrier.domain.comments import CommentRefusal
from retrier.domain.identity import canonical, is_guid
from retrier.store.engine.database import writing
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import failure_groups
from retrier.store.tables import event_log, group_comments
from retrier.store.tables.event_log import Entry


@writing
def write_comment(tx: Transaction, group_id: str, comment: str, who: str) -> CommentRefusal | None:
    """Comment on a group, in place of an earlier comment; return why it is refused, or None.

    The same text again changes nothing: neither the time nor who wrote it. The event keeps the
    text, so one that is replaced can be read there. Raises DatabaseUnavailable.
    """
    title = _find_title(tx, group_id)
    if title is None:
        return CommentRefusal.UNKNOWN
    key = canonical(group_id)
    if group_comments.put(tx, key, comment, who):
        _note(tx, "group_commented", f"on the group {title}: {comment}", who, key)
    return None


@writing
def delete_comment(tx: Transaction, group_id: str, who: str) -> CommentRefusal | None:
    """Delete the comment of a group if it has one; return why it is refused, or None.

    Raises DatabaseUnavailable.
    """
    title = _find_title(tx, group_id)
    if title is None:
        return CommentRefusal.UNKNOWN
    key = canonical(group_id)
    if group_comments.remove(tx, key):
        _note(tx, "group_comment_deleted", f"the comment on the group {title}", who, key)
    return None


@writing
def sweep_comments(tx: Transaction) -> int:
    """Delete the comments of groups whose last message retention has deleted; return how many.

    Without the fence: it is right whoever does it, and the lease is not locked meanwhile. After a
    crash before this, the next sweep that deletes a message does it. Raises DatabaseUnavailable.
    """
    return group_comments.remove_of_empty(tx)


def _find_title(tx: Transaction, group_id: str) -> str | None:
    if not is_guid(group_id):
        return None
    column = failure_groups.c
    query = select(column.title).where(column.group_id == canonical(group_id))
    return tx.execute(query).scalar_one_or_none()


def _note(tx: Transaction, kind: str, text: str, who: str, group_id: str) -> None:
    about: dict[str, object] = {"group": group_id}
    event_log.append(tx, [Entry(kind=kind, text=text, who=who, details=about)])
