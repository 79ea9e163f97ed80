"""The groups of a classifier with their retries and archives, as rows."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from retrier.domain.comments import Comment
from retrier.errors import DatabaseUnavailable
from retrier.store.engine.database import Database
from retrier.store.queries.comments import find_comments
from retrier.store.queries.group_archives import add_archives
from retrier.store.queries.groups import add_retries
from retrier.store.queries.message_waits import why_groups_wait
from retrier.web.snapshot import Snapshot
from retrier.web.views.groups import GroupRow, counted, rows


def list_rows(db: Database, found: Snapshot, classifier: str) -> Sequence[GroupRow]:
    """Return the groups, newest failure first; behind them those that have only a retry to tell of.

    Counts are those of the snapshot. Retries are looked up now: a click must show at once. Without
    the database they are those of a moment ago, which is better than no page.
    """
    groups = counted(classifier, found.groups.get(classifier, ()))
    waits: Mapping[str, str] = {}
    comments: Mapping[str, Comment] = {}
    with suppress(DatabaseUnavailable):
        groups = add_archives(db, add_retries(db, groups, classifier), classifier)
        waits = why_groups_wait(db, [each.group.group_id for each in groups])
        comments = find_comments(db, [each.group.group_id for each in groups])
    return rows(found, classifier, groups, waits, comments)
