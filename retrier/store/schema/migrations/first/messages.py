"""The first tables about failed messages."""

import sqlalchemy as sa
from alembic import op

from retrier.store.schema.types import Digest, Id, Number, UtcTime

_UNRESOLVED = sa.text("status = 'unresolved'")
SEQUENCES = ("failure_seq", "message_number", "attempt_number")


def create() -> None:
    """Create them."""
    if op.get_bind().dialect.name == "postgresql":
        for name in SEQUENCES:
            op.execute(sa.schema.CreateSequence(sa.Sequence(name)))
    _create_counters()
    _create_failure_groups()
    _create_causes()
    _create_cause_groups()
    _create_failed_messages()
    _create_processing_attempts()


def drop() -> None:
    """Drop them."""
    op.drop_table("processing_attempts")
    op.drop_table("failed_messages")
    op.drop_table("cause_groups")
    op.drop_table("causes")
    op.drop_table("failure_groups")
    op.drop_table("counters")
    if op.get_bind().dialect.name == "postgresql":
        for name in SEQUENCES:
            op.execute(sa.schema.DropSequence(sa.Sequence(name)))


def _create_counters() -> None:
    op.create_table(
        "counters",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("value", Number, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_counters"),
    )


def _create_failure_groups() -> None:
    op.create_table(
        "failure_groups",
        sa.Column("group_id", Id(), nullable=False),
        sa.Column("classifier", sa.String(length=64), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("group_id", name="pk_failure_groups"),
    )


def _create_causes() -> None:
    op.create_table(
        "causes",
        sa.Column("cause_id", Number, autoincrement=True, nullable=False),
        sa.Column("fingerprint", Digest(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("destination", sa.Text(), nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=True),
        sa.Column("message_type", sa.Text(), nullable=True),
        sa.Column("exception_type", sa.Text(), nullable=True),
        sa.Column("failure_reason", sa.Text(), nullable=True),
        sa.Column("exception_message", sa.Text(), nullable=True),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("cause_id", name="pk_causes"),
        sa.UniqueConstraint("fingerprint", name="uq_causes_fingerprint"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_causes_endpoint", "causes", ["endpoint"], unique=False)
    op.create_index("ix_causes_queue", "causes", ["queue"], unique=False)


def _create_cause_groups() -> None:
    op.create_table(
        "cause_groups",
        sa.Column("cause_id", Number, nullable=False),
        sa.Column("group_id", Id(), nullable=False),
        sa.ForeignKeyConstraint(
            ["cause_id"], ["causes.cause_id"], name="fk_cause_groups_cause_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["group_id"], ["failure_groups.group_id"], name="fk_cause_groups_group_id"
        ),
        sa.PrimaryKeyConstraint("cause_id", "group_id", name="pk_cause_groups"),
    )
    op.create_index("ix_cause_groups_group", "cause_groups", ["group_id"], unique=False)


def _create_failed_messages() -> None:
    op.create_table(
        "failed_messages",
        sa.Column("number", Number, autoincrement=False, nullable=False),
        sa.Column("failure_seq", Number, nullable=False),
        sa.Column("cause_id", Number, nullable=False),
        sa.Column("attempt_id", Number, nullable=False),
        sa.Column("first_failure", UtcTime(), nullable=False),
        sa.Column("last_failure", UtcTime(), nullable=False),
        sa.Column("last_modified", UtcTime(), nullable=False),
        sa.Column("unique_message_id", Id(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("failure_count", sa.Integer(), nullable=False),
        sa.Column("body_size", sa.Integer(), nullable=False),
        sa.Column("properties_size", sa.Integer(), nullable=False),
        sa.Column("last_failure_known", sa.Boolean(), nullable=False),
        sa.Column("released", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("edited", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("disposition", sa.String(length=16), server_default="manual", nullable=False),
        sa.Column("time_sent", UtcTime(), nullable=True),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("last_retry_id", Id(), nullable=True),
        sa.Column("resolution", sa.String(length=16), nullable=True),
        sa.Column("resolved_at", UtcTime(), nullable=True),
        sa.Column("disposition_reason", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("policy", sa.Text(), nullable=True),
        sa.Column("retry_at", UtcTime(), nullable=True),
        sa.Column("stream_id", sa.Text(), nullable=True),
        sa.Column("stream_rule", sa.String(length=16), nullable=True),
        sa.Column("maybe_copy_of", Id(), nullable=True),
        sa.Column("edit_of", Id(), nullable=True),
        sa.Column("archive_operation_id", Id(), nullable=True),
        sa.CheckConstraint(
            "(disposition = 'scheduled') = (retry_at IS NOT NULL)",
            name=op.f("ck_failed_messages_scheduled_has_its_time"),
        ),
        sa.CheckConstraint(
            "(status = 'resolved') = (resolution IS NOT NULL)",
            name=op.f("ck_failed_messages_resolved_says_on_what_evidence"),
        ),
        sa.CheckConstraint(
            "archive_operation_id IS NULL OR status = 'archived'",
            name=op.f("ck_failed_messages_only_archived_by_an_operation"),
        ),
        sa.CheckConstraint(
            "disposition = 'manual' OR status = 'unresolved'",
            name=op.f("ck_failed_messages_only_unresolved_is_disposed_of"),
        ),
        sa.CheckConstraint(
            "disposition IN ('manual', 'scheduled', 'dead')",
            name=op.f("ck_failed_messages_disposition_known"),
        ),
        sa.CheckConstraint(
            "resolution IN ('confirmed', 'presumed', 'by_hand', 'edited')",
            name=op.f("ck_failed_messages_resolution_known"),
        ),
        sa.CheckConstraint(
            "status IN ('unresolved', 'retry_issued', 'resolved', 'archived')",
            name=op.f("ck_failed_messages_status_known"),
        ),
        sa.CheckConstraint(
            "stream_rule IN ('strict', 'release')",
            name=op.f("ck_failed_messages_stream_rule_known"),
        ),
        sa.CheckConstraint(
            "NOT released OR stream_id IS NOT NULL",
            name=op.f("ck_failed_messages_released_from_a_stream"),
        ),
        sa.CheckConstraint("attempts >= 1", name=op.f("ck_failed_messages_attempts_counted")),
        sa.CheckConstraint("failure_count >= 0", name=op.f("ck_failed_messages_failures_counted")),
        sa.CheckConstraint(
            "stream_rule IS NULL OR stream_id IS NOT NULL",
            name=op.f("ck_failed_messages_rule_of_a_stream"),
        ),
        sa.ForeignKeyConstraint(
            ["cause_id"], ["causes.cause_id"], name="fk_failed_messages_cause_id"
        ),
        sa.PrimaryKeyConstraint("number", name="pk_failed_messages"),
        sa.UniqueConstraint("unique_message_id", name="uq_failed_messages_unique_message_id"),
    )
    op.create_index(
        "ix_failed_messages_cause",
        "failed_messages",
        ["cause_id", "failure_seq"],
        unique=False,
        sqlite_where=_UNRESOLVED,
        postgresql_where=_UNRESOLVED,
    )
    op.create_index(
        "ix_failed_messages_cut",
        "failed_messages",
        ["failure_seq"],
        unique=True,
        sqlite_where=_UNRESOLVED,
        postgresql_where=_UNRESOLVED,
    )
    op.create_index(
        "ix_failed_messages_list", "failed_messages", ["status", "last_failure"], unique=False
    )
    op.create_index(
        "ix_failed_messages_modified", "failed_messages", ["last_modified"], unique=False
    )
    op.create_index("ix_failed_messages_time_sent", "failed_messages", ["time_sent"], unique=False)
    op.create_index(
        "ix_failed_messages_message_id", "failed_messages", ["message_id"], unique=False
    )


def _create_processing_attempts() -> None:
    op.create_table(
        "processing_attempts",
        sa.Column("attempt_id", Number, autoincrement=False, nullable=False),
        sa.Column("number", Number, nullable=False),
        sa.Column("cause_id", Number, nullable=False),
        sa.Column("received_at", UtcTime(), nullable=False),
        sa.Column("fingerprint", Digest(), nullable=False),
        sa.Column("body_hash", Digest(), nullable=False),
        sa.Column("redelivered", sa.Boolean(), nullable=False),
        sa.Column("dialect", sa.String(length=32), nullable=False),
        sa.Column("error_queue", sa.Text(), nullable=False),
        sa.Column("time_of_failure", UtcTime(), nullable=True),
        sa.Column("retry_id", sa.Text(), nullable=True),
        sa.Column("disposition", sa.String(length=16), nullable=True),
        sa.Column("disposition_reason", sa.Text(), nullable=True),
        sa.Column("policy", sa.Text(), nullable=True),
        sa.Column("completed_steps", sa.Text(), nullable=True),
        sa.Column("exception_message", sa.Text(), nullable=True),
        sa.Column("stack_trace", sa.Text(), nullable=True),
        sa.Column("same_body_as", Number, nullable=True),
        sa.Column("raw_properties", sa.LargeBinary(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.CheckConstraint(
            "disposition IN ('manual', 'scheduled', 'dead')",
            name=op.f("ck_processing_attempts_disposition_known"),
        ),
        sa.CheckConstraint(
            "(body IS NULL) = (same_body_as IS NOT NULL)",
            name=op.f("ck_processing_attempts_one_body"),
        ),
        sa.PrimaryKeyConstraint("attempt_id", name="pk_processing_attempts"),
    )
    op.create_index(
        "ix_processing_attempts_message", "processing_attempts", ["number"], unique=False
    )
    op.create_index(
        "ix_processing_attempts_redelivery", "processing_attempts", ["fingerprint"], unique=False
    )
