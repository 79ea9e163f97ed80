"""Comments (`group_comments`): at most one for each group."""

from sqlalchemy import delete, select

from retrier.store.engine.transaction import Transaction
from retrier.store.schema import cause_groups, failed_messages, group_comments

comments = group_comments.c


def put(tx: Transaction, group_id: str, comment: str, who: str) -> bool:
    """Store the comment of a group in place of another one; false if it is the same already.

    One statement: two requests at the same time, or one sent twice, leave one row.
    """
    told = {"comment": comment, "who": who, "written_at": tx.now}
    insert = tx.sql.insert(group_comments).values(group_id=group_id, **told)
    put = insert.on_conflict_do_update(
        index_elements=["group_id"], set_=told, where=comments.comment != comment
    )
    return tx.execute(put.returning(comments.group_id)).first() is not None


def remove(tx: Transaction, group_id: str) -> bool:
    """Delete the comment of a group; false if it has none."""
    return tx.execute(delete(group_comments).where(comments.group_id == group_id)).rowcount > 0


def remove_of_empty(tx: Transaction) -> int:
    """Delete the comments of groups of which no message is stored any more; return how many.

    Reads the causes of all messages once, and only if there is a comment at all: no index has them.
    """
    if tx.execute(select(group_comments.c.group_id).limit(1)).first() is None:
        return 0
    stored = select(cause_groups.c.group_id).where(
        cause_groups.c.cause_id.in_(select(failed_messages.c.cause_id))
    )
    return tx.execute(delete(group_comments).where(comments.group_id.not_in(stored))).rowcount
