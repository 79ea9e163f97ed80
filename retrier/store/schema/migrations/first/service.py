"""The first tables about the service itself."""

import sqlalchemy as sa
from alembic import op

from retrier.store.schema.types import Digest, Id, Json, Number, UtcTime


def create() -> None:
    """Create them."""
    _create_processor_lease()
    _create_failed_imports()
    _create_event_log()
    _create_ledger()
    _create_installation()


def drop() -> None:
    """Drop them."""
    op.drop_table("installation")
    op.drop_table("ledger")
    op.drop_table("event_log")
    op.drop_table("failed_imports")
    op.drop_table("processor_lease")


def _create_processor_lease() -> None:
    op.create_table(
        "processor_lease",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("epoch", Number, nullable=False),
        sa.Column("session_id", Id(), nullable=True),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("pid", sa.Integer(), nullable=True),
        sa.Column("process_started", sa.Text(), nullable=True),
        sa.Column("acquired_at", UtcTime(), nullable=True),
        sa.Column("renewed_at", UtcTime(), nullable=True),
        sa.Column("expires_at", UtcTime(), nullable=True),
        sa.CheckConstraint("id = 1", name=op.f("ck_processor_lease_one_processor")),
        sa.PrimaryKeyConstraint("id", name="pk_processor_lease"),
    )


def _create_failed_imports() -> None:
    op.create_table(
        "failed_imports",
        sa.Column("import_id", Id(), nullable=False),
        sa.Column("error_queue", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("raw_properties", sa.LargeBinary(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("fingerprint", Digest(), nullable=False),
        sa.Column("received_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("import_id", name="pk_failed_imports"),
    )
    op.create_index("ix_failed_imports_redelivery", "failed_imports", ["fingerprint"], unique=False)


def _create_event_log() -> None:
    op.create_table(
        "event_log",
        sa.Column("event_id", Number, autoincrement=True, nullable=False),
        sa.Column("at", UtcTime(), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("unique_message_id", sa.String(length=36), nullable=True),
        sa.Column("operation_id", Id(), nullable=True),
        sa.Column("batch_id", Id(), nullable=True),
        sa.Column("details", Json, nullable=True),
        sa.PrimaryKeyConstraint("event_id", name="pk_event_log"),
    )
    op.create_index("ix_event_log_message", "event_log", ["unique_message_id"], unique=False)
    op.create_index("ix_event_log_operation", "event_log", ["operation_id"], unique=False)
    op.create_index("ix_event_log_sweep", "event_log", ["at"], unique=False)


def _create_ledger() -> None:
    op.create_table(
        "ledger",
        sa.Column("instance", sa.Text(), nullable=False),
        sa.Column("entry", sa.String(length=32), nullable=False),
        sa.Column("count", Number, nullable=False),
        sa.PrimaryKeyConstraint("instance", "entry", name="pk_ledger"),
    )


def _create_installation() -> None:
    op.create_table(
        "installation",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("installation_id", Id(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_installation_one_installation")),
        sa.PrimaryKeyConstraint("id", name="pk_installation"),
    )
