"""Views: tables joined for people who query in SQL. Their columns are public, too."""

from collections.abc import Mapping
from types import MappingProxyType

from retrier.domain.classifiers import CLASSIFIERS

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
"""The query of each view, by the name of the view."""
