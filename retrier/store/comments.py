"""Comments on groups (`group_comments`): at most one for each, swept when its group is empty."""

from collections.abc import Mapping, Sequence

from sqlalchemy import delete, select

from retrier.domain.comments import Comment, CommentRefusal
from retrier.domain.identity import canonical, is_guid
from retrier.store import event_log
from retrier.store.engine.database import reading, writing
from retrier.store.engine.transaction import Transaction
from retrier.store.event_log import Entry
from retrier.store.schema import cause_groups, failed_messages, failure_groups, group_comments

comments = group_comments.c


@reading
def find_comments(tx: Transaction, group_ids: Sequence[str]) -> Mapping[str, Comment]:
    """Return the comments of those groups that have one. Raises DatabaseUnavailable."""
    if not group_ids:
        return {}
    query = select(group_comments).where(tx.sql.member(comments.group_id, group_ids))
    return {
        row.group_id: Comment(text=row.comment, who=row.who, written_at=row.written_at)
        for row in tx.execute(query)
    }


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
    told = {"comment": comment, "who": who, "written_at": tx.now}
    insert = tx.sql.insert(group_comments).values(group_id=key, **told)
    # One statement: two requests at the same time, or one sent twice, leave one row.
    put = insert.on_conflict_do_update(
        index_elements=["group_id"], set_=told, where=comments.comment != comment
    )
    if tx.execute(put.returning(comments.group_id)).first() is not None:
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
    if tx.execute(delete(group_comments).where(comments.group_id == key)).rowcount:
        _note(tx, "group_comment_deleted", f"the comment on the group {title}", who, key)
    return None


@writing
def sweep_comments(tx: Transaction) -> int:
    """Delete the comments of groups whose last message retention has deleted; return how many.

    Without the fence: it is right whoever does it, and the lease is not locked meanwhile. After a
    crash before this, the next sweep that deletes a message does it. Reads the causes of all
    messages once, and only if there is a comment at all: no index has them. Raises
    DatabaseUnavailable.
    """
    if tx.execute(select(comments.group_id).limit(1)).first() is None:
        return 0
    stored = select(cause_groups.c.group_id).where(
        cause_groups.c.cause_id.in_(select(failed_messages.c.cause_id))
    )
    return tx.execute(delete(group_comments).where(comments.group_id.not_in(stored))).rowcount


def _find_title(tx: Transaction, group_id: str) -> str | None:
    if not is_guid(group_id):
        return None
    column = failure_groups.c
    query = select(column.title).where(column.group_id == canonical(group_id))
    return tx.execute(query).scalar_one_or_none()


def _note(tx: Transaction, kind: str, text: str, who: str, group_id: str) -> None:
    about: dict[str, object] = {"group": group_id}
    event_log.append(tx, [Entry(kind=kind, text=text, who=who, details=about)])
