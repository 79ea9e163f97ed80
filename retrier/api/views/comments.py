"""Comments on groups as JSON."""

from collections.abc import Mapping, Sequence

from retrier.api.answers import Json, time
from retrier.domain.comments import Comment
from retrier.store.engine.database import Database
from retrier.store.queries.comments import find_comments
from retrier.store.queries.groups import GroupCount


def comments_of(db: Database, groups: Sequence[GroupCount]) -> Mapping[str, Json]:
    """Return what is added to those groups that have a comment. Raises DatabaseUnavailable."""
    found = find_comments(db, [each.group.group_id for each in groups])
    return {group_id: comment(each) for group_id, each in found.items()}


def comment(shown: Comment) -> Json:
    """Show a comment as a part of its group."""
    return {
        "comment": shown.text,
        "commented_by": shown.who,
        "commented_at": time(shown.written_at),
    }
