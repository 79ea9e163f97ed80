"""The tables. Their names, columns and states are public: operators query them."""

from retrier.store.schema.messages import (
    counters,
    failed_message_groups,
    failed_messages,
    failure_groups,
    failure_seq,
    message_bodies,
    processing_attempts,
)
from retrier.store.schema.retries import (
    failed_message_retries,
    message_redirects,
    retry_batch_now_forwarding,
    retry_batches,
    retry_operation_messages,
    retry_operations,
    staging_ids,
)
from retrier.store.schema.service import (
    event_log,
    failed_imports,
    installation,
    ledger,
    processor_lease,
)
from retrier.store.schema.types import metadata

__all__ = [
    "counters",
    "event_log",
    "failed_imports",
    "failed_message_groups",
    "failed_message_retries",
    "failed_messages",
    "failure_groups",
    "failure_seq",
    "installation",
    "ledger",
    "message_bodies",
    "message_redirects",
    "metadata",
    "processing_attempts",
    "processor_lease",
    "retry_batch_now_forwarding",
    "retry_batches",
    "retry_operation_messages",
    "retry_operations",
    "staging_ids",
]
