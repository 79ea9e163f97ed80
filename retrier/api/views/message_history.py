"""The history of one message as JSON: its attempts, and what happened to it in sentences."""

from retrier.api.answers import Json, camel, present, time
from retrier.api.views.messages import attempt
from retrier.store.queries.attempts import ShownAttempt
from retrier.store.queries.history_words import put_into_words
from retrier.store.queries.message_history import HistoryLine


def full_attempt(shown: ShownAttempt) -> Json:
    """Show one failure as the page of its message does, and all else that is known of it."""
    more = {
        "attempt_id": shown.attempt_id,
        "error_queue": shown.error_queue,
        "dialect": shown.dialect,
        "endpoint": shown.endpoint,
        "message_type": shown.message_type,
        "failure_reason": shown.failure_reason,
        "redelivered": shown.redelivered,
        "disposition": camel(shown.disposition) if shown.disposition else None,
        "disposition_reason": shown.disposition_reason,
        "policy": shown.policy,
        "reason": shown.reason,
        "failure_count": shown.failure_count,
        "retry_at": time(shown.retry_at),
        "is_current": shown.is_current,
    }
    return attempt(shown) | present(more)


def line(told: HistoryLine) -> Json:
    """Show one thing that happened: `kind` for programs, `text` for people."""
    kind, text = put_into_words(told)
    logged = told.event
    return present(
        {
            "at": time(told.at),
            "kind": kind,
            "text": text,
            "who": logged.who if logged else told.request and told.request.requested_by,
            "why": told.request and told.request.why,
            "operation_id": told.operation_id,
            "retry_id": told.retry_id,
            "batch_id": logged and logged.batch_id,
            "event_id": logged and str(logged.event_id),
            "attempt_id": told.attempt and told.attempt.attempt_id,
            "time_of_failure": told.attempt and time(told.attempt.time_of_failure),
            "disposition": told.attempt and told.attempt.disposition,
            "details": logged and logged.details,
        }
    )
