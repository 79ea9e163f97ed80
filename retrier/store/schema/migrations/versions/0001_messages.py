"""The tables about failed messages."""

import sqlalchemy as sa
from alembic import op

from retrier.store.schema.types import Json, Number, UtcTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create them."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute(sa.schema.CreateSequence(sa.Sequence("failure_seq")))
    _create_counters()
    _create_message_bodies()
    _create_failed_messages()
    _create_processing_attempts()
    _create_failure_groups()
    _create_failed_message_groups()


def downgrade() -> None:
    """Drop them."""
    op.drop_table("failed_message_groups")
    op.drop_table("failure_groups")
    op.drop_table("processing_attempts")
    op.drop_table("failed_messages")
    op.drop_table("message_bodies")
    op.drop_table("counters")
    if op.get_bind().dialect.name == "postgresql":
        op.execute(sa.schema.DropSequence(sa.Sequence("failure_seq")))


def _create_counters() -> None:
    op.create_table(
        "counters",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("value", Number, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_counters"),
    )


def _create_message_bodies() -> None:
    op.create_table(
        "message_bodies",
        sa.Column("body_hash", sa.String(length=64), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("body_hash", name="pk_message_bodies"),
    )


def _create_failed_messages() -> None:
    op.create_table(
        "failed_messages",
        sa.Column("unique_message_id", sa.String(length=36), nullable=False),
        sa.Column("failure_seq", Number, nullable=False),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("destination", sa.Text(), nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=True),
        sa.Column("message_type", sa.Text(), nullable=True),
        sa.Column("exception_type", sa.Text(), nullable=True),
        sa.Column("exception_message", sa.Text(), nullable=True),
        sa.Column("stack_trace", sa.Text(), nullable=True),
        sa.Column("failure_reason", sa.Text(), nullable=True),
        sa.Column("time_sent", UtcTime(), nullable=True),
        sa.Column("first_failure", UtcTime(), nullable=False),
        sa.Column("last_failure", UtcTime(), nullable=False),
        sa.Column("last_failure_known", sa.Boolean(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("completed_steps", sa.Text(), nullable=True),
        sa.Column("stream_id", sa.Text(), nullable=True),
        sa.Column("disposition", sa.String(length=16), server_default="manual", nullable=False),
        sa.Column("disposition_reason", sa.Text(), nullable=True),
        sa.Column("retry_at", UtcTime(), nullable=True),
        sa.Column("resolution", sa.String(length=16), nullable=True),
        sa.Column("resolved_at", UtcTime(), nullable=True),
        sa.Column("last_retry_id", sa.String(length=36), nullable=True),
        sa.Column("last_modified", UtcTime(), nullable=False),
        sa.Column("dialect", sa.String(length=32), nullable=False),
        sa.Column("error_queue", sa.Text(), nullable=False),
        sa.Column("content_type", sa.Text(), nullable=True),
        sa.Column("raw_properties", sa.LargeBinary(), nullable=False),
        sa.Column("headers", Json, nullable=False),
        sa.Column("body_hash", sa.String(length=64), nullable=False),
        sa.Column("body_size", sa.Integer(), nullable=False),
        sa.Column("maybe_copy_of", sa.String(length=36), nullable=True),
        sa.CheckConstraint(
            "(status = 'resolved') = (resolution IS NOT NULL)",
            name=op.f("ck_failed_messages_resolved_says_on_what_evidence"),
        ),
        sa.CheckConstraint(
            "disposition IN ('manual', 'scheduled', 'dead')",
            name=op.f("ck_failed_messages_disposition_known"),
        ),
        sa.CheckConstraint(
            "resolution IN ('confirmed', 'presumed', 'by_hand')",
            name=op.f("ck_failed_messages_resolution_known"),
        ),
        sa.CheckConstraint(
            "status IN ('unresolved', 'retry_issued', 'resolved', 'archived')",
            name=op.f("ck_failed_messages_status_known"),
        ),
        sa.CheckConstraint("attempts >= 1", name=op.f("ck_failed_messages_attempts_counted")),
        sa.ForeignKeyConstraint(
            ["body_hash"], ["message_bodies.body_hash"], name="fk_failed_messages_body_hash"
        ),
        sa.PrimaryKeyConstraint("unique_message_id", name="pk_failed_messages"),
    )
    op.create_index(
        "ix_failed_messages_cut",
        "failed_messages",
        ["failure_seq"],
        unique=True,
        postgresql_where=sa.text("status = 'unresolved'"),
        sqlite_where=sa.text("status = 'unresolved'"),
    )
    op.create_index(
        "ix_failed_messages_endpoint", "failed_messages", ["endpoint", "failure_seq"], unique=False
    )
    op.create_index(
        "ix_failed_messages_list", "failed_messages", ["status", "last_failure"], unique=False
    )
    op.create_index(
        "ix_failed_messages_message_id", "failed_messages", ["message_id"], unique=False
    )
    op.create_index(
        "ix_failed_messages_modified", "failed_messages", ["last_modified"], unique=False
    )
    op.create_index(
        "ix_failed_messages_queue", "failed_messages", ["queue", "failure_seq"], unique=False
    )
    op.create_index("ix_failed_messages_time_sent", "failed_messages", ["time_sent"], unique=False)


def _create_processing_attempts() -> None:
    op.create_table(
        "processing_attempts",
        sa.Column("attempt_id", Number, autoincrement=True, nullable=False),
        sa.Column("unique_message_id", sa.String(length=36), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("retry_id", sa.String(length=36), nullable=True),
        sa.Column("time_of_failure", UtcTime(), nullable=True),
        sa.Column("received_at", UtcTime(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=True),
        sa.Column("exception_type", sa.Text(), nullable=True),
        sa.Column("exception_message", sa.Text(), nullable=True),
        sa.Column("stack_trace", sa.Text(), nullable=True),
        sa.Column("raw_properties", sa.LargeBinary(), nullable=False),
        sa.Column("body_hash", sa.String(length=64), nullable=False),
        sa.Column("redelivered", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["body_hash"], ["message_bodies.body_hash"], name="fk_processing_attempts_body_hash"
        ),
        sa.ForeignKeyConstraint(
            ["unique_message_id"],
            ["failed_messages.unique_message_id"],
            name="fk_processing_attempts_unique_message_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("attempt_id", name="pk_processing_attempts"),
    )
    op.create_index(
        "ix_processing_attempts_message", "processing_attempts", ["unique_message_id"], unique=False
    )
    op.create_index(
        "ix_processing_attempts_redelivery", "processing_attempts", ["fingerprint"], unique=False
    )


def _create_failure_groups() -> None:
    op.create_table(
        "failure_groups",
        sa.Column("group_id", sa.String(length=36), nullable=False),
        sa.Column("classifier", sa.String(length=64), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("group_id", name="pk_failure_groups"),
    )


def _create_failed_message_groups() -> None:
    op.create_table(
        "failed_message_groups",
        sa.Column("unique_message_id", sa.String(length=36), nullable=False),
        sa.Column("group_id", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_id"], ["failure_groups.group_id"], name="fk_failed_message_groups_group_id"
        ),
        sa.ForeignKeyConstraint(
            ["unique_message_id"],
            ["failed_messages.unique_message_id"],
            name="fk_failed_message_groups_unique_message_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("unique_message_id", "group_id", name="pk_failed_message_groups"),
    )
    op.create_index(
        "ix_failed_message_groups_group", "failed_message_groups", ["group_id"], unique=False
    )
