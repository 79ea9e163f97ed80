"""Tables about the service itself: lease, failed imports, event log, ledger, installation."""

from collections.abc import Mapping
from types import MappingProxyType

from sqlalchemy import CheckConstraint, Column, Index, Integer, LargeBinary, String, Table, Text

from retrier.domain.classifiers import CLASSIFIERS
from retrier.store.schema.types import Digest, Id, Json, Number, UtcTime, metadata

processor_lease = Table(
    "processor_lease",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("epoch", Number, nullable=False),
    Column("session_id", Id),
    Column("host", Text),
    Column("pid", Integer),
    Column("process_started", Text),
    Column("acquired_at", UtcTime),
    Column("renewed_at", UtcTime),
    Column("expires_at", UtcTime),
    CheckConstraint("id = 1", name="one_processor"),
)

failed_imports = Table(
    "failed_imports",
    metadata,
    Column("import_id", Id, primary_key=True),
    Column("error_queue", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("raw_properties", LargeBinary, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("fingerprint", Digest, nullable=False),
    Column("received_at", UtcTime, nullable=False),
)

Index("ix_failed_imports_redelivery", failed_imports.c.fingerprint)

event_log = Table(
    "event_log",
    metadata,
    Column("event_id", Number, primary_key=True, autoincrement=True),
    Column("at", UtcTime, nullable=False),
    Column("kind", String(64), nullable=False),
    Column("who", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("unique_message_id", String(36)),
    Column("operation_id", Id),
    Column("batch_id", Id),
    Column("details", Json),
)
Index("ix_event_log_sweep", event_log.c.at)
Index("ix_event_log_message", event_log.c.unique_message_id)
Index("ix_event_log_operation", event_log.c.operation_id)

ledger = Table(
    "ledger",
    metadata,
    Column("instance", Text, primary_key=True),
    Column("entry", String(32), primary_key=True),
    Column("count", Number, nullable=False),
)

installation = Table(
    "installation",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("installation_id", Id, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    CheckConstraint("id = 1", name="one_installation"),
)


_FAILED_MESSAGES = f"""
SELECT m.number, m.unique_message_id, m.message_id, m.status, m.failure_seq,
       c.queue, c.destination, c.endpoint, c.message_type,
       c.exception_type, c.exception_message, c.failure_reason, g.title AS group_title,
       m.time_sent, m.first_failure, m.last_failure, m.last_failure_known, m.attempts,
       m.failure_count, m.disposition, m.disposition_reason, m.reason, m.policy, m.retry_at,
       m.resolution, m.resolved_at, m.last_retry_id, m.last_modified,
       m.stream_id, m.maybe_copy_of, m.body_size, m.properties_size,
       a.dialect, a.error_queue, a.completed_steps, a.body_hash, m.attempt_id, m.cause_id
FROM failed_messages m
JOIN causes c ON c.cause_id = m.cause_id
LEFT JOIN processing_attempts a ON a.attempt_id = m.attempt_id
LEFT JOIN (SELECT cg.cause_id, fg.title FROM cause_groups cg
           JOIN failure_groups fg ON fg.group_id = cg.group_id
           WHERE fg.classifier = '{CLASSIFIERS[0]}') g ON g.cause_id = m.cause_id
"""  # noqa: S608 - a constant of ours

_FAILED_MESSAGE_RETRIES = """
SELECT m.unique_message_id, r.number, r.failure_seq, r.retry_id, r.batch_id, r.operation_id,
       r.sending_since, r.forwarded_at
FROM failed_message_retries r
LEFT JOIN failed_messages m ON m.number = r.number
"""

VIEWS: Mapping[str, str] = MappingProxyType(
    {
        "v_failed_messages": _FAILED_MESSAGES,
        "v_failed_message_retries": _FAILED_MESSAGE_RETRIES,
    }
)
"""By name, the query that each view is."""
