"""What policies decide: on attempts, what is due, notices, and which set each process has."""

import sqlalchemy as sa
from alembic import op

from retrier.store.schema.types import Id, Json, UtcTime

revision = "1008"
down_revision = "1007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add columns, a table and an index: no row changes.

    The counts of operations get 64 bits: the standing operation counts for years. On SQLite they
    have them already.
    """
    _count_in(sa.BigInteger(), sa.Integer())
    op.add_column("processing_attempts", sa.Column("reason", sa.Text()))
    op.add_column("processing_attempts", sa.Column("failure_count", sa.Integer()))
    op.add_column("processing_attempts", sa.Column("retry_at", UtcTime))
    op.add_column("outgoing", sa.Column("notice", Json))
    scheduled = sa.text("disposition = 'scheduled'")
    op.create_index(
        "ix_failed_messages_due",
        "failed_messages",
        ["retry_at", "failure_seq"],
        postgresql_where=scheduled,
        sqlite_where=scheduled,
    )
    dead = sa.text("disposition = 'dead'")
    op.create_index(
        "ix_failed_messages_dead",
        "failed_messages",
        ["cause_id", "failure_seq"],
        postgresql_where=dead,
        sqlite_where=dead,
    )
    none = sa.text("0")
    op.add_column(
        "retry_operations",
        sa.Column("dead_left_out", sa.Integer(), nullable=False, server_default=none),
    )
    op.create_table(
        "policy_sets",
        sa.Column("session_id", Id(), nullable=False),
        sa.Column("instance", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("set_hash", sa.String(64), nullable=False),
        sa.Column("file_time", UtcTime),
        sa.Column("loaded_at", UtcTime, nullable=False),
        sa.Column("problems", Json, nullable=False),
        sa.Column("seen_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("session_id", name="pk_policy_sets"),
    )


def downgrade() -> None:
    """Take them away."""
    _count_in(sa.Integer(), sa.BigInteger())
    op.drop_table("policy_sets")
    op.drop_column("retry_operations", "dead_left_out")
    op.drop_index("ix_failed_messages_dead", table_name="failed_messages")
    op.drop_index("ix_failed_messages_due", table_name="failed_messages")
    op.drop_column("outgoing", "notice")
    for name in ("retry_at", "failure_count", "reason"):
        op.drop_column("processing_attempts", name)


def _count_in(new: sa.types.TypeEngine[int], old: sa.types.TypeEngine[int]) -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    for name in ("total", "forwarded", "skipped", "failed", "batches"):
        op.alter_column("retry_operations", name, type_=new, existing_type=old)
