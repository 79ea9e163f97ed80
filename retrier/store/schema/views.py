"""Views: tables joined for people who query in SQL. Their columns are public, too."""

from collections.abc import Mapping
from types import MappingProxyType

from retrier.domain.classifiers import CLASSIFIERS
from retrier.policy.reasons import NUMBERS

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


_RETRY_BACKLOG = """
SELECT COUNT(*) AS scheduled_count, MIN(retry_at) AS next_retry, MAX(retry_at) AS latest_retry
FROM failed_messages
WHERE disposition = 'scheduled'
"""

_CODES = " ".join(f"WHEN '{reason}' THEN {number}" for reason, number in NUMBERS.items())

_FAILURE_REASONS = f"""
SELECT reason, CASE reason {_CODES} END AS code, COUNT(*) AS count
FROM failed_messages
WHERE status = 'unresolved'
GROUP BY reason
"""  # noqa: S608 - constants of ours

_ATTEMPTS = """
SELECT attempts, COUNT(*) AS message_count
FROM failed_messages
WHERE status = 'unresolved'
GROUP BY attempts
"""

_OFTEN = 10
"""Failures after which a message that is retried still may be poison."""

_POISON_CANDIDATES = f"""
SELECT m.unique_message_id AS message_id, c.destination, c.message_type AS event_type, m.attempts,
       COALESCE(c.exception_message, c.exception_type, c.failure_reason) AS error,
       m.retry_at AS scheduled_for, m.first_failure AS created_at
FROM failed_messages m
JOIN causes c ON c.cause_id = m.cause_id
WHERE m.status = 'unresolved' AND m.disposition <> 'dead' AND m.attempts >= {_OFTEN}
"""  # noqa: S608 - a constant of ours


# Joined and grouped as a whole: so only the claims of batches that are alive are read, by index, and
# not all that wait for an outcome.
_RETRY_BATCHES = """
SELECT b.batch_id, b.status, b.session_id, b.staging_id, b.initial_size, b.message_count,
       COUNT(c.number) AS claims, COUNT(c.sending_since) AS stamped,
       COUNT(c.forwarded_at) AS recorded,
       COUNT(CASE WHEN c.sending_since IS NOT NULL AND c.forwarded_at IS NULL THEN 1 END)
           AS in_doubt,
       b.operation_id, o.originator, o.requested_by, b.reason, b.stage_attempts, b.not_before,
       b.created_at, b.modified_at
FROM retry_batches b
JOIN retry_operations o ON o.operation_id = b.operation_id
LEFT JOIN failed_message_retries c ON c.batch_id = b.batch_id
GROUP BY b.batch_id, b.status, b.session_id, b.staging_id, b.initial_size, b.message_count,
         b.operation_id, o.originator, o.requested_by, b.reason, b.stage_attempts, b.not_before,
         b.created_at, b.modified_at
"""


VIEWS: Mapping[str, str] = MappingProxyType(
    {
        "v_failed_messages": _FAILED_MESSAGES,
        "v_failed_message_retries": _FAILED_MESSAGE_RETRIES,
        "v_retry_backlog": _RETRY_BACKLOG,
        "v_failure_reasons": _FAILURE_REASONS,
        "v_attempts": _ATTEMPTS,
        "v_poison_candidates": _POISON_CANDIDATES,
        "v_retry_batches": _RETRY_BATCHES,
    }
)
"""The query of each view, by the name of the view."""
