"""Where a message failed: host, process and node. And copies that were stored under two nodes.

A version before took the name of a Celery worker for the endpoint: one task that failed at two of
them is two messages. They are not joined, for nobody knows which of both counts: the later one
says of which it may be a copy, and no policy retries it.
"""

import sqlalchemy as sa
from alembic import op

from retrier.store.schema.types import Id

revision = "1020"
down_revision = "1019"
branch_labels = None
depends_on = None

_COLUMNS = ("host", "process", "node")
_OPEN = ("unresolved", "retry_issued")

messages = sa.table(
    "failed_messages",
    *map(sa.column, ("number", "cause_id", "attempt_id", "message_id", "status", "disposition")),
    sa.column("disposition_reason"),
    sa.column("retry_at"),
    sa.column("unique_message_id", Id),
    sa.column("maybe_copy_of", Id),
)
causes = sa.table("causes", *map(sa.column, ("cause_id", "queue", "endpoint", "message_type")))
attempts = sa.table("processing_attempts", *map(sa.column, ("attempt_id", "dialect", "body_hash")))


def upgrade() -> None:
    """Add the columns, empty: what is stored fills them when it fails again. Mark the copies."""
    for name in _COLUMNS:
        op.add_column("failed_messages", sa.Column(name, sa.Text()))
    bind = op.get_bind()
    for row in bind.execute(_find_copies()).all():
        bind.execute(_mark(row.number, row.first))


def downgrade() -> None:
    """Take them away; the marks stay, for the version before understands them."""
    for name in reversed(_COLUMNS):
        op.drop_column("failed_messages", name)


def _find_copies() -> sa.Select[tuple[int, str]]:
    """Return the query of later messages, and the first one of which each may be a copy.

    Grouped, and not compared one by one: a publisher may use one message id for all it sends.
    """
    stored = (
        sa.select(*_ALIKE, messages.c.number, causes.c.endpoint, messages.c.unique_message_id)
        .join_from(messages, causes, causes.c.cause_id == messages.c.cause_id)
        .join(attempts, attempts.c.attempt_id == messages.c.attempt_id)
        .where(
            messages.c.message_id.is_not(None),
            messages.c.status.in_(_OPEN),
            messages.c.maybe_copy_of.is_(None),
            attempts.c.dialect == "retrier",
        )
        .cte("stored")
    )
    names = [stored.c[each.name] for each in _ALIKE]
    groups = (
        sa.select(*names, sa.func.min(stored.c.number).label("first"))
        .group_by(*names)
        .having(sa.func.min(stored.c.endpoint) != sa.func.max(stored.c.endpoint))
        .subquery()
    )
    first = stored.alias("first")
    alike = sa.and_(*(stored.c[each.name] == groups.c[each.name] for each in _ALIKE))
    return (
        sa.select(stored.c.number, first.c.unique_message_id.label("first"))
        .join_from(stored, groups, alike)
        .join(first, first.c.number == groups.c.first)
        .where(stored.c.endpoint != first.c.endpoint)
    )


_ALIKE = (messages.c.message_id, causes.c.queue, causes.c.message_type, attempts.c.body_hash)


def _mark(number: int, first: str) -> sa.Update:
    why = f"it may be a copy of the message {first}, so it is not retried by itself"
    is_scheduled = messages.c.disposition == "scheduled"
    return (
        sa.update(messages)
        .where(messages.c.number == number)
        .values(
            maybe_copy_of=first,
            retry_at=None,
            disposition_reason=sa.case((is_scheduled, why), else_=messages.c.disposition_reason),
            disposition=sa.case((is_scheduled, "manual"), else_=messages.c.disposition),
        )
    )
