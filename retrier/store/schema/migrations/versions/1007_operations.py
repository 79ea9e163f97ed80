"""What operations can be asked for, archive operations, and a shared lock of the lease's row."""

import sqlalchemy as sa
from alembic import op

from retrier.store.schema.types import Digest, Id, Json, Number, UtcTime

revision = "1007"
down_revision = "1006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add columns, tables and indexes: no row is touched, and no table made anew."""
    op.add_column("retry_operations", sa.Column("next_cut", UtcTime))
    op.add_column(
        "retry_operations",
        sa.Column("passed_over", sa.Boolean(), server_default=sa.false(), nullable=False),
    )
    op.add_column("retry_operations", sa.Column("request_hash", Digest()))
    op.create_table(
        "retry_operation_canaries",
        sa.Column("operation_id", Id(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("wait_ms", Number, nullable=False),
        sa.Column("most_back", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("retries", Json, nullable=False),
        sa.Column("came_back", sa.Integer()),
        _check("retry_operation_canaries", "state_known", _one_of("state", _CANARY_STATES)),
        _check("retry_operation_canaries", "sends_something", "size >= 1"),
        _check("retry_operation_canaries", "waits_forward", "wait_ms >= 0"),
        _check("retry_operation_canaries", "counts_what_came_back", "most_back >= 0"),
        sa.ForeignKeyConstraint(
            ["operation_id"],
            ["retry_operations.operation_id"],
            name="fk_retry_operation_canaries_operation_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("operation_id", name="pk_retry_operation_canaries"),
    )
    _create_archives()
    op.create_index("ix_processor_lease_epoch", "processor_lease", ["epoch"], unique=True)
    by_one = sa.text("archive_operation_id IS NOT NULL")
    op.create_index(
        "ix_failed_messages_archive_operation",
        "failed_messages",
        ["archive_operation_id", "number"],
        postgresql_where=by_one,
        sqlite_where=by_one,
    )


_CANARY_STATES = ("sending", "waiting", "passed", "failed")
_ACTS = ("archive", "unarchive", "resolve")
_STATES = ("waiting", "running", "completed")


def _one_of(column: str, values: tuple[str, ...]) -> str:
    names = ", ".join(f"'{value}'" for value in values)
    return f"{column} IN ({names})"


def _check(table: str, name: str, text: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(text, name=op.f(f"ck_{table}_{name}"))


def _create_archives() -> None:
    op.create_table(
        "archive_operations",
        sa.Column("operation_id", Id(), nullable=False),
        sa.Column("act", sa.String(16), nullable=False),
        sa.Column("selection", Json, nullable=False),
        sa.Column("cut_off", Number, nullable=False),
        sa.Column("cursor", Number, nullable=False),
        sa.Column("originator", sa.Text(), nullable=False),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column("why", sa.Text()),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("skipped", sa.Integer(), nullable=False),
        sa.Column("skipped_because", Json, nullable=False),
        sa.Column("undo_of", Id()),
        sa.Column("reason", sa.Text()),
        sa.Column("idempotency_key", sa.String(255)),
        sa.Column("request_hash", Digest()),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("started_at", UtcTime),
        sa.Column("completed_at", UtcTime),
        sa.Column("acknowledged_at", UtcTime),
        sa.Column("modified_at", UtcTime, nullable=False),
        _check("archive_operations", "act_known", _one_of("act", _ACTS)),
        _check("archive_operations", "state_known", _one_of("state", _STATES)),
        _check(
            "archive_operations",
            "completed_has_its_time",
            "(state = 'completed') = (completed_at IS NOT NULL)",
        ),
        sa.PrimaryKeyConstraint("operation_id", name="pk_archive_operations"),
        sa.UniqueConstraint("idempotency_key", name="uq_archive_operations_idempotency_key"),
    )
    op.create_index("ix_archive_operations_next", "archive_operations", ["state", "created_at"])
    op.create_index("ix_archive_operations_retention", "archive_operations", ["completed_at"])
    op.create_table(
        "archive_operation_messages",
        sa.Column("operation_id", Id(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("unique_message_id", sa.Text(), nullable=False),
        sa.Column("refused_because", sa.Text()),
        sa.ForeignKeyConstraint(
            ["operation_id"],
            ["archive_operations.operation_id"],
            name="fk_archive_operation_messages_operation_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("operation_id", "position", name="pk_archive_operation_messages"),
    )


def downgrade() -> None:
    """Take them away."""
    op.drop_index("ix_failed_messages_archive_operation", table_name="failed_messages")
    op.drop_index("ix_processor_lease_epoch", table_name="processor_lease")
    for name in ("archive_operation_messages", "archive_operations", "retry_operation_canaries"):
        op.drop_table(name)
    for name in ("request_hash", "passed_over", "next_cut"):
        op.drop_column("retry_operations", name)
