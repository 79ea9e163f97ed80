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
    """Return the query of later messages, and the first one of which each may be a copy."""
    first, first_cause, first_attempt = (
        each.alias(f"first_{each.name}") for each in (messages, causes, attempts)
    )
    other = (
        sa.select(first.c.unique_message_id)
        .join_from(first, first_cause, first_cause.c.cause_id == first.c.cause_id)
        .join(first_attempt, first_attempt.c.attempt_id == first.c.attempt_id)
        .where(
            first.c.message_id == messages.c.message_id,
            first.c.number < messages.c.number,
            first.c.status.in_(_OPEN),
            first_cause.c.queue == causes.c.queue,
            first_cause.c.message_type == causes.c.message_type,
            first_cause.c.endpoint != causes.c.endpoint,
            first_attempt.c.dialect == "retrier",
            first_attempt.c.body_hash == attempts.c.body_hash,
        )
        .order_by(first.c.number)
        .limit(1)
        .correlate(messages, causes, attempts)
        .scalar_subquery()
    )
    found = (
        sa.select(messages.c.number, other.label("first"))
        .join_from(messages, causes, causes.c.cause_id == messages.c.cause_id)
        .join(attempts, attempts.c.attempt_id == messages.c.attempt_id)
        .where(
            messages.c.message_id.in_(_used_twice()),
            messages.c.status.in_(_OPEN),
            messages.c.maybe_copy_of.is_(None),
            attempts.c.dialect == "retrier",
        )
        .subquery()
    )
    return sa.select(found.c.number, found.c.first).where(found.c.first.is_not(None))


def _used_twice() -> sa.Select[tuple[str]]:
    column = messages.c.message_id
    return sa.select(column).group_by(column).having(sa.func.count() > 1)


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
