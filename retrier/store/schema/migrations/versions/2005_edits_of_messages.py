"""Edits: what a person wants to send instead of a failed message, and which claim sends it."""

import sqlalchemy as sa
from alembic import op

revision = "2005"
down_revision = "2004"
branch_labels = None
depends_on = None

Id = sa.String(36).with_variant(sa.UUID(as_uuid=False), "postgresql")
Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
UtcTime = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make the table, and the columns that refer to it or count what became of it."""
    op.create_table(
        "message_edits",
        sa.Column("edit_id", Id, nullable=False),
        sa.Column("number", Number, nullable=False),
        sa.Column("attempt_id", Number, nullable=False),
        sa.Column("operation_id", Id, nullable=False),
        sa.Column("retry_id", Id, nullable=False),
        sa.Column("asked_at", UtcTime, nullable=False),
        sa.Column("ended_at", UtcTime, nullable=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("body_hash", sa.LargeBinary(), nullable=False),
        sa.Column("raw_properties", sa.LargeBinary(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("edit_id", name=op.f("pk_message_edits")),
        sa.CheckConstraint(
            "state IN ('waiting', 'sent', 'returned', 'dropped', 'in_doubt')",
            name=op.f("ck_message_edits_state_known"),
        ),
        sa.CheckConstraint(
            "(state = 'waiting') = (ended_at IS NULL)", name=op.f("ck_message_edits_ended_has_time")
        ),
    )
    waiting = sa.text("state = 'waiting'")
    op.create_index(
        "ix_message_edits_waiting",
        "message_edits",
        ["number"],
        unique=True,
        postgresql_where=waiting,
        sqlite_where=waiting,
    )
    op.create_index("ix_message_edits_message", "message_edits", ["number"])
    op.create_index("ix_message_edits_retry", "message_edits", ["retry_id"], unique=True)
    op.add_column("failed_message_retries", sa.Column("edit_id", Id, nullable=True))
    op.add_column(
        "retry_operation_outcomes",
        sa.Column("edited", Number, nullable=False, server_default=sa.text("0")),
    )
    named = sa.text("edit_of IS NOT NULL")
    op.create_index(
        "ix_failed_messages_edit_of",
        "failed_messages",
        ["edit_of"],
        postgresql_where=named,
        sqlite_where=named,
    )
