"""The first tables about retries."""

import sqlalchemy as sa
from alembic import op

from retrier.store.schema.types import Id, Json, Number, UtcTime


def create() -> None:
    """Create them."""
    _create_retry_operations()
    _create_retry_operation_messages()
    _create_retry_batches()
    _create_staging_ids()
    _create_retry_batch_now_forwarding()
    _create_failed_message_retries()
    _create_ended_retries()
    _create_message_redirects()


def drop() -> None:
    """Drop them."""
    op.drop_table("message_redirects")
    op.drop_table("ended_retries")
    op.drop_table("failed_message_retries")
    op.drop_table("retry_batch_now_forwarding")
    op.drop_table("staging_ids")
    op.drop_table("retry_batches")
    op.drop_table("retry_operation_messages")
    op.drop_table("retry_operations")


def _create_retry_operations() -> None:
    op.create_table(
        "retry_operations",
        sa.Column("operation_id", Id(), nullable=False),
        sa.Column("retry_type", sa.String(length=32), nullable=False),
        sa.Column("selection", Json, nullable=False),
        sa.Column("cut_off", Number, nullable=False),
        sa.Column("floor", Number, nullable=False),
        sa.Column("originator", sa.Text(), nullable=False),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=True),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("forwarded", sa.Integer(), nullable=False),
        sa.Column("skipped", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("batches", sa.Integer(), nullable=False),
        sa.Column("left_out", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("message_limit", sa.Integer(), nullable=True),
        sa.Column("destination", sa.Text(), nullable=True),
        sa.Column("rate", sa.Integer(), nullable=True),
        sa.Column("cancel_asked", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("acknowledged_at", UtcTime(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("not_before", UtcTime(), nullable=True),
        sa.Column("last_cut", UtcTime(), nullable=True),
        sa.Column("idempotency_key", sa.String(length=255), nullable=True),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("started_at", UtcTime(), nullable=True),
        sa.Column("completed_at", UtcTime(), nullable=True),
        sa.Column("modified_at", UtcTime(), nullable=False),
        sa.CheckConstraint(
            "(state IN ('completed', 'cancelled')) = (completed_at IS NOT NULL)",
            name=op.f("ck_retry_operations_completed_has_its_time"),
        ),
        sa.CheckConstraint(
            "retry_type IN ('single_message', 'multiple_messages', 'failure_group', 'all_for_endpoint', 'by_queue_address', 'all', 'by_policy', 'edit')",
            name=op.f("ck_retry_operations_retry_type_known"),
        ),
        sa.CheckConstraint(
            "state IN ('waiting', 'preparing', 'forwarding', 'paused', 'completed', 'cancelled')",
            name=op.f("ck_retry_operations_state_known"),
        ),
        sa.PrimaryKeyConstraint("operation_id", name="pk_retry_operations"),
        sa.UniqueConstraint("idempotency_key", name="uq_retry_operations_idempotency_key"),
    )
    op.create_index(
        "ix_retry_operations_next",
        "retry_operations",
        ["state", "priority", "last_cut"],
        unique=False,
    )


def _create_retry_operation_messages() -> None:
    op.create_table(
        "retry_operation_messages",
        sa.Column("operation_id", Id(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("unique_message_id", sa.Text(), nullable=False),
        sa.Column("number", Number, nullable=True),
        sa.Column("skipped_because", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["operation_id"],
            ["retry_operations.operation_id"],
            name="fk_retry_operation_messages_operation_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("operation_id", "position", name="pk_retry_operation_messages"),
    )


def _create_retry_batches() -> None:
    op.create_table(
        "retry_batches",
        sa.Column("batch_id", Id(), nullable=False),
        sa.Column("operation_id", Id(), nullable=False),
        sa.Column("session_id", Id(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("staging_id", Id(), nullable=True),
        sa.Column("initial_size", sa.Integer(), nullable=False),
        sa.Column("message_count", sa.Integer(), nullable=True),
        sa.Column("stage_attempts", sa.Integer(), nullable=False),
        sa.Column("not_before", UtcTime(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("modified_at", UtcTime(), nullable=False),
        sa.CheckConstraint(
            "(status = 'forwarding') = (message_count IS NOT NULL)",
            name=op.f("ck_retry_batches_count_frozen_with_staging_id"),
        ),
        sa.CheckConstraint(
            "(status = 'forwarding') = (staging_id IS NOT NULL)",
            name=op.f("ck_retry_batches_staging_id_while_forwarding"),
        ),
        sa.CheckConstraint(
            "status IN ('marking', 'staging', 'forwarding')",
            name=op.f("ck_retry_batches_status_known"),
        ),
        sa.CheckConstraint("initial_size <= 1000", name=op.f("ck_retry_batches_at_most_1000")),
        sa.ForeignKeyConstraint(
            ["operation_id"],
            ["retry_operations.operation_id"],
            name="fk_retry_batches_operation_id",
        ),
        sa.PrimaryKeyConstraint("batch_id", name="pk_retry_batches"),
    )
    op.create_index("ix_retry_batches_operation", "retry_batches", ["operation_id"], unique=True)


def _create_staging_ids() -> None:
    op.create_table(
        "staging_ids",
        sa.Column("staging_id", Id(), nullable=False),
        sa.Column("made_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("staging_id", name="pk_staging_ids"),
    )
    op.create_index("ix_staging_ids_sweep", "staging_ids", ["made_at"], unique=False)


def _create_retry_batch_now_forwarding() -> None:
    op.create_table(
        "retry_batch_now_forwarding",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("batch_id", Id(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_retry_batch_now_forwarding_at_most_one")),
        sa.ForeignKeyConstraint(
            ["batch_id"], ["retry_batches.batch_id"], name="fk_retry_batch_now_forwarding_batch_id"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_retry_batch_now_forwarding"),
    )


def _create_failed_message_retries() -> None:
    op.create_table(
        "failed_message_retries",
        sa.Column("number", Number, autoincrement=False, nullable=False),
        sa.Column("failure_seq", Number, nullable=False),
        sa.Column("retry_id", Id(), nullable=False),
        sa.Column("batch_id", Id(), nullable=False),
        sa.Column("operation_id", Id(), nullable=False),
        sa.Column("sending_since", UtcTime(), nullable=True),
        sa.Column("forwarded_at", UtcTime(), nullable=True),
        sa.CheckConstraint(
            "forwarded_at IS NULL OR sending_since IS NOT NULL",
            name=op.f("ck_failed_message_retries_stamped_before_recorded"),
        ),
        sa.PrimaryKeyConstraint("number", name="pk_failed_message_retries"),
        postgresql_with={"fillfactor": 50},
    )
    op.create_index(
        "ix_failed_message_retries_batch", "failed_message_retries", ["batch_id"], unique=False
    )


def _create_ended_retries() -> None:
    op.create_table(
        "ended_retries",
        sa.Column("number", Number, autoincrement=False, nullable=False),
        sa.Column("retry_id", Id(), nullable=False),
        sa.Column("operation_id", Id(), nullable=False),
        sa.Column("sending_since", UtcTime(), nullable=False),
        sa.Column("forwarded_at", UtcTime(), nullable=True),
        sa.Column("ended_at", UtcTime(), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.CheckConstraint(
            "outcome IN ('failed', 'confirmed', 'resolved', 'released', 'reverted', 'presumed', 'edited')",
            name=op.f("ck_ended_retries_outcome_known"),
        ),
        sa.PrimaryKeyConstraint("number", "retry_id", name="pk_ended_retries"),
    )


def _create_message_redirects() -> None:
    op.create_table(
        "message_redirects",
        sa.Column("from_queue", sa.String(length=255), nullable=False),
        sa.Column("to_queue", sa.String(length=255), nullable=False),
        sa.Column("modified_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("from_queue", name="pk_message_redirects"),
    )
