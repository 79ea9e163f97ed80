"""What is stored of messages and claims, in one row each: past the store's own verbs."""

from typing import Any

from sqlalchemy import Select, select

from retrier.store.schema import (
    causes,
    failed_message_retries,
    failed_messages,
    processing_attempts,
)

_attempts = processing_attempts.c
_OF_ATTEMPT = ("dialect", "error_queue", "completed_steps", "raw_properties", "body_hash", "body")
_OF_CAUSE = ("queue", "destination", "endpoint", "message_type", "exception_type", "failure_reason")


def select_messages() -> Select[Any]:
    """Select every failed message with its cause, and the attempt that it shows."""
    return (
        select(
            failed_messages,
            *(causes.c[name] for name in _OF_CAUSE),
            *(_attempts[name] for name in _OF_ATTEMPT),
        )
        .join_from(failed_messages, causes, causes.c.cause_id == failed_messages.c.cause_id)
        .join(processing_attempts, _attempts.attempt_id == failed_messages.c.attempt_id)
        .order_by(failed_messages.c.number)
    )


def select_claims() -> Select[Any]:
    """Select every claim with the unique id of its message."""
    return select(failed_message_retries, failed_messages.c.unique_message_id).join_from(
        failed_message_retries,
        failed_messages,
        failed_messages.c.number == failed_message_retries.c.number,
    )
