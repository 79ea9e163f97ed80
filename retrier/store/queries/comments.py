"""The comments of groups, as people see them."""

from collections.abc import Mapping, Sequence

from sqlalchemy import select

from retrier.domain.comments import Comment
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import group_comments

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
