"""The schema of 1.0: all tables, their indexes, and the sequences.

A copy of what `retrier/store/schema` was then. It imports nothing of Retrier and is never changed:
whatever the tables become later, this revision makes what it made.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "2001"
down_revision = None
branch_labels = None
depends_on = None

Id = sa.String(36).with_variant(sa.UUID(as_uuid=False), "postgresql")
Json = sa.JSON().with_variant(JSONB(), "postgresql")
# SQLite numbers rows itself only if the column's type is named INTEGER.
Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
UtcTime = sa.DateTime(timezone=True)
ByCodePoint = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

COMPRESSED = ("processing_attempts", "failed_imports")
# PostgreSQL 13 has no such setting, and later ones may be built without lz4.
KNOWS_LZ4 = """
SELECT EXISTS (SELECT 1 FROM pg_settings
               WHERE name = 'default_toast_compression' AND 'lz4' = ANY(enumvals))
"""

tables = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
    }
)


def upgrade() -> None:
    """Create everything. What is there already is no table of ours: then it fails."""
    bind = op.get_bind()
    tables.create_all(bind, checkfirst=False)
    if bind.dialect.name == "postgresql" and bind.execute(sa.text(KNOWS_LZ4)).scalar_one():
        # PostgreSQL's own method took 85 of 280 us for a failure (decision 0013).
        for table in COMPRESSED:
            op.execute(
                f"ALTER TABLE {table} ALTER COLUMN raw_properties SET COMPRESSION lz4, "
                "ALTER COLUMN body SET COMPRESSION lz4"
            )


def _index(name: str, *columns: str, where: str, unique: bool = False) -> sa.Index:
    """Return an index of those rows only for which a condition holds."""
    condition = sa.text(where)
    return sa.Index(
        name, *columns, unique=unique, postgresql_where=condition, sqlite_where=condition
    )


sa.Sequence("failure_seq", metadata=tables)
sa.Sequence("message_number", metadata=tables)
sa.Sequence("attempt_number", metadata=tables)

sa.Table(
    "counters",
    tables,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", Number, nullable=False),
)

sa.Table(
    "failure_groups",
    tables,
    sa.Column("group_id", Id, primary_key=True),
    sa.Column("classifier", sa.String(64), nullable=False),
    sa.Column("title", sa.Text, nullable=False),
)

sa.Table(
    "causes",
    tables,
    sa.Column("cause_id", Number, primary_key=True, autoincrement=True),
    sa.Column("fingerprint", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("queue", sa.Text, nullable=False),
    sa.Column("destination", sa.Text, nullable=False),
    sa.Column("endpoint", sa.Text),
    sa.Column("message_type", sa.Text),
    sa.Column("exception_type", sa.Text),
    sa.Column("failure_reason", sa.Text),
    sa.Column("exception_message", sa.Text),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Index("ix_causes_queue", "queue"),
    sa.Index("ix_causes_endpoint", "endpoint"),
    sqlite_autoincrement=True,
)

sa.Table(
    "cause_groups",
    tables,
    sa.Column("cause_id", sa.ForeignKey("causes.cause_id", ondelete="CASCADE"), primary_key=True),
    sa.Column("group_id", sa.ForeignKey("failure_groups.group_id"), primary_key=True),
    sa.Index("ix_cause_groups_group", "group_id"),
)

sa.Table(
    "group_comments",
    tables,
    sa.Column("group_id", sa.ForeignKey("failure_groups.group_id"), primary_key=True),
    sa.Column("comment", sa.Text, nullable=False),
    sa.Column("who", sa.Text, nullable=False),
    sa.Column("written_at", UtcTime, nullable=False),
)

sa.Table(
    "message_texts",
    tables,
    sa.Column("text_id", Number, primary_key=True, autoincrement=True),
    sa.Column("digest", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("folded", ByCodePoint, nullable=False),
    sqlite_autoincrement=True,
)

sa.Table(
    "failed_messages",
    tables,
    sa.Column("number", Number, primary_key=True, autoincrement=False),
    sa.Column("failure_seq", Number, nullable=False),
    sa.Column("cause_id", sa.ForeignKey("causes.cause_id"), nullable=False),
    sa.Column("attempt_id", Number, nullable=False),
    sa.Column("first_failure", UtcTime, nullable=False),
    sa.Column("last_failure", UtcTime, nullable=False),
    sa.Column("last_modified", UtcTime, nullable=False),
    sa.Column("unique_message_id", Id, nullable=False, unique=True),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("failure_count", sa.Integer, nullable=False),
    sa.Column("body_size", sa.Integer, nullable=False),
    sa.Column("properties_size", sa.Integer, nullable=False),
    sa.Column("last_failure_known", sa.Boolean, nullable=False),
    sa.Column("released", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("edited", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("disposition", sa.String(16), nullable=False, server_default="manual"),
    sa.Column("time_sent", UtcTime),
    sa.Column("message_id", ByCodePoint),
    sa.Column("last_retry_id", Id),
    sa.Column("resolution", sa.String(16)),
    sa.Column("resolved_at", UtcTime),
    sa.Column("disposition_reason", sa.Text),
    sa.Column("reason", sa.Text),
    sa.Column("policy", sa.Text),
    sa.Column("retry_at", UtcTime),
    sa.Column("stream_id", sa.Text),
    sa.Column("stream_rule", sa.String(16)),
    sa.Column("maybe_copy_of", Id),
    sa.Column("edit_of", Id),
    sa.Column("archive_operation_id", Id),
    sa.Column("stream_queue", sa.Text),
    sa.Column("derived_from", Id),
    sa.Column("stream_position", sa.String(30), nullable=False, server_default="2"),
    sa.Column("stream_position_unread", sa.Text),
    sa.Column("host", sa.Text),
    sa.Column("process", sa.Text),
    sa.Column("node", sa.Text),
    sa.Column("last_word", sa.String(16)),
    sa.Column("archived_disposition", sa.String(16)),
    sa.Column("archived_reason", sa.Text),
    sa.Column("archived_policy", sa.Text),
    sa.Column("archived_retry_at", UtcTime),
    sa.Column("text_id", Number),
    sa.Column("changed_seq", Number),
    sa.CheckConstraint(
        "status IN ('unresolved', 'retry_issued', 'resolved', 'archived')", name="status_known"
    ),
    sa.CheckConstraint("disposition IN ('manual', 'scheduled', 'dead')", name="disposition_known"),
    sa.CheckConstraint(
        "resolution IN ('confirmed', 'presumed', 'by_hand', 'edited')", name="resolution_known"
    ),
    sa.CheckConstraint("stream_rule IN ('strict', 'release')", name="stream_rule_known"),
    sa.CheckConstraint(
        "(status = 'resolved') = (resolution IS NOT NULL)", name="resolved_says_on_what_evidence"
    ),
    sa.CheckConstraint(
        "(disposition = 'scheduled') = (retry_at IS NOT NULL)", name="scheduled_has_its_time"
    ),
    sa.CheckConstraint(
        "disposition = 'manual' OR status = 'unresolved'", name="only_unresolved_is_disposed_of"
    ),
    sa.CheckConstraint(
        "archive_operation_id IS NULL OR status = 'archived'", name="only_archived_by_an_operation"
    ),
    sa.CheckConstraint("NOT released OR stream_id IS NOT NULL", name="released_from_a_stream"),
    sa.CheckConstraint("stream_rule IS NULL OR stream_id IS NOT NULL", name="rule_of_a_stream"),
    sa.CheckConstraint("attempts >= 1", name="attempts_counted"),
    sa.CheckConstraint("failure_count >= 0", name="failures_counted"),
    _index("ix_failed_messages_cut", "failure_seq", unique=True, where="status = 'unresolved'"),
    _index("ix_failed_messages_cause", "cause_id", "failure_seq", where="status = 'unresolved'"),
    sa.Index("ix_failed_messages_list", "status", "last_failure"),
    sa.Index("ix_failed_messages_time_sent", "time_sent"),
    sa.Index("ix_failed_messages_modified", "last_modified"),
    _index(
        "ix_failed_messages_retention",
        "status",
        "resolution",
        "last_modified",
        where="status IN ('resolved', 'archived')",
    ),
    _index(
        "ix_failed_messages_archive_operation",
        "archive_operation_id",
        "number",
        where="archive_operation_id IS NOT NULL",
    ),
    _index("ix_failed_messages_due", "retry_at", "failure_seq", where="disposition = 'scheduled'"),
    _index(
        "ix_failed_messages_turns",
        "policy",
        "cause_id",
        "retry_at",
        "failure_seq",
        where="retry_at IS NOT NULL",
    ),
    _index("ix_failed_messages_dead", "cause_id", "failure_seq", where="disposition = 'dead'"),
    _index(
        "ix_failed_messages_stream",
        "stream_queue",
        "stream_id",
        "stream_position",
        "number",
        where="stream_id IS NOT NULL AND status IN ('unresolved', 'retry_issued')",
    ),
    _index(
        "ix_failed_messages_strict",
        "number",
        where="stream_rule = 'strict' AND status = 'unresolved' AND NOT released",
    ),
    _index("ix_failed_messages_issued", "cause_id", "number", where="status = 'retry_issued'"),
    _index("ix_failed_messages_derived", "derived_from", where="derived_from IS NOT NULL"),
    sa.Index("ix_failed_messages_message_id", "message_id"),
    sa.Index("ix_failed_messages_text", "text_id", "status"),
)

sa.Table(
    "processing_attempts",
    tables,
    sa.Column("attempt_id", Number, primary_key=True, autoincrement=False),
    sa.Column("number", Number, nullable=False),
    sa.Column("cause_id", Number, nullable=False),
    sa.Column("received_at", UtcTime, nullable=False),
    sa.Column("fingerprint", sa.LargeBinary, nullable=False),
    sa.Column("body_hash", sa.LargeBinary, nullable=False),
    sa.Column("redelivered", sa.Boolean, nullable=False),
    sa.Column("dialect", sa.String(32), nullable=False),
    sa.Column("error_queue", sa.Text, nullable=False),
    sa.Column("time_of_failure", UtcTime),
    sa.Column("retry_id", sa.Text),
    sa.Column("disposition", sa.String(16)),
    sa.Column("disposition_reason", sa.Text),
    sa.Column("policy", sa.Text),
    sa.Column("completed_steps", sa.Text),
    sa.Column("exception_message", sa.Text),
    sa.Column("stack_trace", sa.Text),
    sa.Column("same_body_as", Number),
    sa.Column("raw_properties", sa.LargeBinary, nullable=False),
    sa.Column("body", sa.LargeBinary),
    sa.Column("reason", sa.Text),
    sa.Column("failure_count", sa.Integer),
    sa.Column("retry_at", UtcTime),
    sa.CheckConstraint("disposition IN ('manual', 'scheduled', 'dead')", name="disposition_known"),
    sa.CheckConstraint("(body IS NULL) = (same_body_as IS NOT NULL)", name="one_body"),
    sa.Index("ix_processing_attempts_message", "number"),
    sa.Index("ix_processing_attempts_redelivery", "fingerprint"),
    _index(
        "ix_processing_attempts_steps", "number", "attempt_id", where="completed_steps IS NOT NULL"
    ),
)

sa.Table(
    "retry_operations",
    tables,
    sa.Column("operation_id", Id, primary_key=True),
    sa.Column("retry_type", sa.String(32), nullable=False),
    sa.Column("selection", Json, nullable=False),
    sa.Column("cut_off", Number, nullable=False),
    sa.Column("floor", Number, nullable=False),
    sa.Column("originator", sa.Text, nullable=False),
    sa.Column("requested_by", sa.Text, nullable=False),
    sa.Column("why", sa.Text),
    sa.Column("priority", sa.Integer, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("total", Number, nullable=False),
    sa.Column("forwarded", Number, nullable=False),
    sa.Column("skipped", Number, nullable=False),
    sa.Column("failed", Number, nullable=False),
    sa.Column("batches", Number, nullable=False),
    sa.Column("left_out", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("message_limit", sa.Integer),
    sa.Column("destination", sa.Text),
    sa.Column("rate", sa.Integer),
    sa.Column("cancel_asked", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("acknowledged_at", UtcTime),
    sa.Column("reason", sa.Text),
    sa.Column("not_before", UtcTime),
    sa.Column("last_cut", UtcTime),
    sa.Column("idempotency_key", sa.String(255), unique=True),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("started_at", UtcTime),
    sa.Column("completed_at", UtcTime),
    sa.Column("modified_at", UtcTime, nullable=False),
    sa.Column("next_cut", UtcTime),
    sa.Column("passed_over", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("request_hash", sa.LargeBinary),
    sa.Column("dead_left_out", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("look_again_at", UtcTime),
    sa.Column("delay_ms", Number),
    sa.Column("drop_headers", Json),
    sa.CheckConstraint(
        "retry_type IN ('single_message', 'multiple_messages', 'failure_group', 'all_for_endpoint', 'by_queue_address', 'all', 'by_policy', 'edit')",
        name="retry_type_known",
    ),
    sa.CheckConstraint(
        "state IN ('waiting', 'preparing', 'forwarding', 'paused', 'completed', 'cancelled')",
        name="state_known",
    ),
    sa.CheckConstraint(
        "(state IN ('completed', 'cancelled')) = (completed_at IS NOT NULL)",
        name="completed_has_its_time",
    ),
    sa.Index("ix_retry_operations_next", "state", "priority", "last_cut"),
    sa.Index("ix_retry_operations_retention", "completed_at"),
)

sa.Table(
    "retry_operation_messages",
    tables,
    sa.Column(
        "operation_id",
        sa.ForeignKey("retry_operations.operation_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("unique_message_id", sa.Text, nullable=False),
    sa.Column("number", Number),
    sa.Column("skipped_because", sa.Text),
)

sa.Table(
    "retry_operation_canaries",
    tables,
    sa.Column(
        "operation_id",
        sa.ForeignKey("retry_operations.operation_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    sa.Column("size", sa.Integer, nullable=False),
    sa.Column("wait_ms", Number, nullable=False),
    sa.Column("most_back", sa.Integer, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("retries", Json, nullable=False),
    sa.Column("came_back", sa.Integer),
    sa.Column("waited_until", UtcTime),
    sa.CheckConstraint("state IN ('sending', 'waiting', 'passed', 'failed')", name="state_known"),
    sa.CheckConstraint("size >= 1", name="sends_something"),
    sa.CheckConstraint("wait_ms >= 0", name="waits_forward"),
    sa.CheckConstraint("most_back >= 0", name="counts_what_came_back"),
)

sa.Table(
    "retry_batches",
    tables,
    sa.Column("batch_id", Id, primary_key=True),
    sa.Column("operation_id", sa.ForeignKey("retry_operations.operation_id"), nullable=False),
    sa.Column("session_id", Id, nullable=False),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("staging_id", Id),
    sa.Column("initial_size", sa.Integer, nullable=False),
    sa.Column("message_count", sa.Integer),
    sa.Column("stage_attempts", sa.Integer, nullable=False),
    sa.Column("not_before", UtcTime),
    sa.Column("reason", sa.Text),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("modified_at", UtcTime, nullable=False),
    sa.CheckConstraint("status IN ('marking', 'staging', 'forwarding')", name="status_known"),
    sa.CheckConstraint("initial_size <= 1000", name="at_most_1000"),
    sa.CheckConstraint(
        "(status = 'forwarding') = (staging_id IS NOT NULL)", name="staging_id_while_forwarding"
    ),
    sa.CheckConstraint(
        "(status = 'forwarding') = (message_count IS NOT NULL)", name="count_frozen_with_staging_id"
    ),
    sa.Index("ix_retry_batches_operation", "operation_id", unique=True),
)

sa.Table(
    "staging_ids",
    tables,
    sa.Column("staging_id", Id, primary_key=True),
    sa.Column("made_at", UtcTime, nullable=False),
    sa.Index("ix_staging_ids_sweep", "made_at"),
)

sa.Table(
    "retry_batch_now_forwarding",
    tables,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("batch_id", sa.ForeignKey("retry_batches.batch_id"), nullable=False),
    sa.CheckConstraint("id = 1", name="at_most_one"),
)

sa.Table(
    "failed_message_retries",
    tables,
    sa.Column("number", Number, primary_key=True, autoincrement=False),
    sa.Column("failure_seq", Number, nullable=False),
    sa.Column("retry_id", Id, nullable=False),
    sa.Column("batch_id", Id, nullable=False),
    sa.Column("operation_id", Id, nullable=False),
    sa.Column("sending_since", UtcTime),
    sa.Column("forwarded_at", UtcTime),
    sa.Column("breaker_id", Number),
    sa.Column("sent_seq", Number),
    sa.Column("sent_to", sa.Text),
    sa.CheckConstraint(
        "forwarded_at IS NULL OR sending_since IS NOT NULL", name="stamped_before_recorded"
    ),
    sa.Index("ix_failed_message_retries_batch", "batch_id"),
    postgresql_with={"fillfactor": 50},
)

sa.Table(
    "ended_retries",
    tables,
    sa.Column("number", Number, primary_key=True, autoincrement=False),
    sa.Column("retry_id", Id, primary_key=True),
    sa.Column("operation_id", Id, nullable=False),
    sa.Column("sending_since", UtcTime, nullable=False),
    sa.Column("forwarded_at", UtcTime),
    sa.Column("ended_at", UtcTime, nullable=False),
    sa.Column("outcome", sa.String(16), nullable=False),
    sa.CheckConstraint(
        "outcome IN ('failed', 'confirmed', 'resolved', 'released', 'reverted', 'presumed', 'edited')",
        name="outcome_known",
    ),
)

sa.Table(
    "message_redirects",
    tables,
    sa.Column("from_queue", sa.String(255), primary_key=True),
    sa.Column("to_queue", sa.String(255), nullable=False),
    sa.Column("modified_at", UtcTime, nullable=False),
)

sa.Table(
    "archive_operations",
    tables,
    sa.Column("operation_id", Id, primary_key=True),
    sa.Column("act", sa.String(16), nullable=False),
    sa.Column("selection", Json, nullable=False),
    sa.Column("cut_off", Number, nullable=False),
    sa.Column("cursor", Number, nullable=False),
    sa.Column("originator", sa.Text, nullable=False),
    sa.Column("requested_by", sa.Text, nullable=False),
    sa.Column("why", sa.Text),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("total", sa.Integer, nullable=False),
    sa.Column("done", sa.Integer, nullable=False),
    sa.Column("skipped", sa.Integer, nullable=False),
    sa.Column("skipped_because", Json, nullable=False),
    sa.Column("undo_of", Id),
    sa.Column("reason", sa.Text),
    sa.Column("idempotency_key", sa.String(255), unique=True),
    sa.Column("request_hash", sa.LargeBinary),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("started_at", UtcTime),
    sa.Column("completed_at", UtcTime),
    sa.Column("acknowledged_at", UtcTime),
    sa.Column("modified_at", UtcTime, nullable=False),
    sa.CheckConstraint("act IN ('archive', 'unarchive', 'resolve')", name="act_known"),
    sa.CheckConstraint("state IN ('waiting', 'running', 'completed')", name="state_known"),
    sa.CheckConstraint(
        "(state = 'completed') = (completed_at IS NOT NULL)", name="completed_has_its_time"
    ),
    sa.Index("ix_archive_operations_next", "state", "created_at"),
    sa.Index("ix_archive_operations_retention", "completed_at"),
)

sa.Table(
    "archive_operation_messages",
    tables,
    sa.Column(
        "operation_id",
        sa.ForeignKey("archive_operations.operation_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("unique_message_id", sa.Text, nullable=False),
    sa.Column("refused_because", sa.Text),
)

sa.Table(
    "breakers",
    tables,
    sa.Column("breaker_id", Number, primary_key=True, autoincrement=True),
    sa.Column("breaker_key", sa.Text, nullable=False, unique=True),
    sa.Column("per", sa.String(16), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("rule", sa.Text),
    sa.Column("grain_ms", Number),
    sa.Column("last_outcomes", sa.Integer),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("changed_at", UtcTime, nullable=False),
    sa.Column("opened_at", UtcTime),
    sa.Column("due_at", UtcTime),
    sa.Column("cooldown_ms", Number, nullable=False, server_default=sa.text("0")),
    sa.Column("sent", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("failed", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("confirms", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("trial_number", Number),
    sa.Column("trial_retry_id", Id),
    sa.Column("hand", sa.String(16)),
    sa.Column("hand_until", UtcTime),
    sa.Column("hand_who", sa.Text),
    sa.Column("hand_why", sa.Text),
    sa.CheckConstraint("per IN ('destination', 'message_type')", name="per_known"),
    sa.CheckConstraint("state IN ('closed', 'open', 'half_open')", name="state_known"),
    sa.CheckConstraint("hand IN ('open', 'closed')", name="hand_known"),
    sa.CheckConstraint("(state = 'closed') = (opened_at IS NULL)", name="open_since"),
    sa.CheckConstraint("state <> 'open' OR due_at IS NOT NULL", name="open_until_it_is_tried"),
    sa.CheckConstraint("(trial_number IS NULL) = (trial_retry_id IS NULL)", name="one_trial"),
    sa.CheckConstraint("trial_number IS NULL OR state = 'half_open'", name="tried_while_half_open"),
    sa.CheckConstraint("(hand IS NULL) = (hand_until IS NULL)", name="by_hand_until"),
    sqlite_autoincrement=True,
)

sa.Table(
    "breaker_counts",
    tables,
    sa.Column("breaker_id", Number, primary_key=True, autoincrement=False),
    sa.Column("since", UtcTime, primary_key=True),
    sa.Column("counted_by", Id, primary_key=True),
    sa.Column("sent", sa.Integer, nullable=False),
    sa.Column("returned", sa.Integer, nullable=False),
    sa.Column("came_back", sa.Integer, nullable=False),
    sa.Column("confirmed", sa.Integer, nullable=False),
    sa.Column("outcomes", sa.Text, nullable=False),
    sa.CheckConstraint(
        "sent >= 0 AND returned >= 0 AND came_back >= 0 AND confirmed >= 0", name="counted_up"
    ),
)

sa.Table(
    "processor_lease",
    tables,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("epoch", Number, nullable=False),
    sa.Column("session_id", Id),
    sa.Column("host", sa.Text),
    sa.Column("pid", sa.Integer),
    sa.Column("process_started", sa.Text),
    sa.Column("acquired_at", UtcTime),
    sa.Column("renewed_at", UtcTime),
    sa.Column("expires_at", UtcTime),
    sa.CheckConstraint("id = 1", name="one_processor"),
    sa.Index("ix_processor_lease_epoch", "epoch", unique=True),
)

sa.Table(
    "failed_imports",
    tables,
    sa.Column("import_id", Id, primary_key=True),
    sa.Column("error_queue", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("raw_properties", sa.LargeBinary, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("fingerprint", sa.LargeBinary, nullable=False),
    sa.Column("received_at", UtcTime, nullable=False),
    sa.Column("redelivered", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("stored_seq", Number, nullable=False),
    sa.Index("ix_failed_imports_redelivery", "fingerprint"),
    sa.Index("ix_failed_imports_received", "received_at"),
)

sa.Table(
    "failed_import_sends",
    tables,
    sa.Column("import_id", sa.ForeignKey("failed_imports.import_id"), primary_key=True),
    sa.Column("send_id", Id, nullable=False),
    sa.Column("sending_to", sa.String(255), nullable=False),
    sa.Column("sending_since", UtcTime, nullable=False),
    sa.Column("requested_by", sa.Text, nullable=False),
)

sa.Table(
    "outgoing",
    tables,
    sa.Column("outgoing_id", Number, primary_key=True, autoincrement=True),
    sa.Column("number", Number, nullable=False),
    sa.Column("attempt_id", Number, nullable=False),
    sa.Column("queue", sa.Text, nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("not_before", UtcTime),
    sa.Column("reason", sa.Text),
    sa.Column("notice", Json),
    sa.CheckConstraint("(not_before IS NULL) = (reason IS NULL)", name="put_off_says_why"),
    sa.Index("ix_outgoing_message", "number"),
)

sa.Table(
    "event_log",
    tables,
    sa.Column("event_id", Number, primary_key=True, autoincrement=True),
    sa.Column("at", UtcTime, nullable=False),
    sa.Column("kind", sa.String(64), nullable=False),
    sa.Column("who", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("unique_message_id", sa.String(36)),
    sa.Column("operation_id", Id),
    sa.Column("batch_id", Id),
    sa.Column("details", Json),
    sa.Index("ix_event_log_sweep", "at"),
    sa.Index("ix_event_log_message", "unique_message_id"),
    sa.Index("ix_event_log_operation", "operation_id"),
)

sa.Table(
    "ledger",
    tables,
    sa.Column("instance", sa.Text, primary_key=True),
    sa.Column("entry", sa.String(32), primary_key=True),
    sa.Column("count", Number, nullable=False),
)

sa.Table(
    "policy_sets",
    tables,
    sa.Column("session_id", Id, primary_key=True),
    sa.Column("instance", sa.Text, nullable=False),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("pid", sa.Integer, nullable=False),
    sa.Column("set_hash", sa.String(64), nullable=False),
    sa.Column("file_time", UtcTime),
    sa.Column("loaded_at", UtcTime, nullable=False),
    sa.Column("problems", Json, nullable=False),
    sa.Column("seen_at", UtcTime, nullable=False),
)

sa.Table(
    "processes",
    tables,
    sa.Column("session_id", Id, primary_key=True),
    sa.Column("instance", sa.Text, nullable=False),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("pid", sa.Integer, nullable=False),
    sa.Column("roles", Json, nullable=False),
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("set_hash", sa.String(64), nullable=False),
    sa.Column("error_queues", Json, nullable=False),
    sa.Column("seen_at", UtcTime, nullable=False),
)

sa.Table(
    "recovery",
    tables,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("since", UtcTime, nullable=False),
    sa.Column("begun_at", UtcTime, nullable=False),
    sa.Column("begun_by", sa.Text, nullable=False),
    sa.CheckConstraint("id = 1", name="one_recovery"),
)

sa.Table(
    "installation",
    tables,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("installation_id", Id, nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.CheckConstraint("id = 1", name="one_installation"),
)

sa.Table(
    "error_queue_reads",
    tables,
    sa.Column("session_id", Id, primary_key=True),
    sa.Column("queue", sa.Text, primary_key=True),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("pid", sa.Integer, nullable=False),
    sa.Column("process_started", sa.Text, nullable=False),
    sa.Column("seen_at", UtcTime, nullable=False),
    sa.Column("level_at", UtcTime),
    sa.Column("ready", sa.Integer),
    sa.Column("stopped", sa.Boolean, nullable=False, server_default=sa.false()),
)
