"""Failure groups of messages: always those of the newest failure."""

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, delete

from retrier.domain.receipt import Attempt, MessageChange
from retrier.store.columns import short
from retrier.store.database import Database
from retrier.store.schema import failed_message_groups, failure_groups


def replace(db: Database, conn: Connection, changes: Sequence[MessageChange]) -> None:
    """Give every message with new details the groups of that failure, and no others."""
    newest = [change.details for change in changes if change.details is not None]
    known = [
        change.unique_message_id
        for change in changes
        if change.details is not None and not change.is_new
    ]
    if known:
        members = failed_message_groups.c.unique_message_id
        conn.execute(delete(failed_message_groups).where(db.sql.member(members, known)))
    _insert_groups(db, conn, newest)
    pairs = [
        {"unique_message_id": attempt.unique_message_id, "group_id": group.group_id}
        for attempt in newest
        for group in attempt.failure.groups
    ]
    if pairs:
        db.sql.add_rows(conn, failed_message_groups, pairs)


def _insert_groups(db: Database, conn: Connection, newest: Iterable[Attempt]) -> None:
    groups = {group.group_id: group for attempt in newest for group in attempt.failure.groups}
    # In one order everywhere: two instances that insert the same groups must not deadlock.
    keys = sorted(groups)
    columns = {
        "group_id": keys,
        "classifier": [groups[key].classifier for key in keys],
        "title": [short(groups[key].title) or "" for key in keys],
    }
    if keys:
        conn.execute(db.sql.insert_texts(failure_groups, columns, {}).on_conflict_do_nothing())
