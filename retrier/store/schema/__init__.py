"""The tables. Their names, columns and states are public: operators query them."""

from retrier.store.schema.archives import archive_operation_messages, archive_operations
from retrier.store.schema.attempts import processing_attempts
from retrier.store.schema.breakers import breaker_counts, breakers
from retrier.store.schema.messages import (
    SCHEDULED,
    SETTLED,
    STRICT,
    attempt_number,
    cause_groups,
    causes,
    counters,
    failed_messages,
    failure_groups,
    failure_seq,
    group_comments,
    message_number,
)
from retrier.store.schema.retries import (
    ended_retries,
    failed_message_retries,
    message_redirects,
    retry_batch_now_forwarding,
    retry_batches,
    retry_operation_canaries,
    retry_operation_messages,
    retry_operations,
    staging_ids,
)
from retrier.store.schema.service import (
    event_log,
    failed_import_sends,
    failed_imports,
    installation,
    ledger,
    outgoing,
    policy_sets,
    processor_lease,
    recovery,
)
from retrier.store.schema.types import metadata
from retrier.store.schema.views import VIEWS

__all__ = [
    "SCHEDULED",
    "SETTLED",
    "STRICT",
    "VIEWS",
    "archive_operation_messages",
    "archive_operations",
    "attempt_number",
    "breaker_counts",
    "breakers",
    "cause_groups",
    "causes",
    "counters",
    "ended_retries",
    "event_log",
    "failed_import_sends",
    "failed_imports",
    "failed_message_retries",
    "failed_messages",
    "failure_groups",
    "failure_seq",
    "group_comments",
    "installation",
    "ledger",
    "message_number",
    "message_redirects",
    "metadata",
    "outgoing",
    "policy_sets",
    "processing_attempts",
    "processor_lease",
    "recovery",
    "retry_batch_now_forwarding",
    "retry_batches",
    "retry_operation_canaries",
    "retry_operation_messages",
    "retry_operations",
    "staging_ids",
]
