"""The history of one message as JSON: its attempts, and what happened to it in sentences."""

from retrier.api.answers import Json, camel, present, time
from retrier.api.views.messages import attempt
from retrier.domain.failed_message import RetryEnd
from retrier.store.queries.attempts import ShownAttempt
from retrier.store.queries.history_lines import Step
from retrier.store.queries.message_history import HistoryLine, Request


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
        "is_current": shown.is_current,
    }
    return attempt(shown) | present(more)


def line(told: HistoryLine) -> Json:
    """Show one thing that happened: `kind` for programs, `text` for people."""
    kind, text = _words(told)
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


def _words(told: HistoryLine) -> tuple[str, str]:
    if told.event is not None:
        return told.event.kind, told.event.text
    if told.attempt is not None:
        return "failed", _failure(told.attempt)
    if told.outcome is not None:
        return _ENDS[told.outcome]
    kind, text = _STEPS[told.step]
    return kind, text.format(request=_name(told.request))


_STEPS = {
    Step.ASKED: ("retry_asked", "A retry was asked for: {request}."),
    Step.CLAIMED: ("claimed", "A batch has claimed it."),
    Step.SENDING: ("sending", "Its retry is being sent: from now on the broker may have it."),
    Step.SENT: ("sent", "The broker has its retry."),
    Step.CONFIRMED: ("confirmed", "A consumer confirmed that it was handled."),
    Step.ARCHIVED: ("archived", "It was archived together with others: {request}."),
}
_ENDS = {
    RetryEnd.FAILED: ("retry_failed", "Its retry failed."),
    RetryEnd.CONFIRMED: ("confirmed", "A consumer confirmed that its retry was handled."),
    RetryEnd.RESOLVED: ("resolved", "A person resolved it."),
    RetryEnd.RELEASED: ("released", "A person stopped waiting for the outcome of its retry."),
    RetryEnd.REVERTED: ("retry_returned", "Its retry could not be sent: it is unresolved again."),
    RetryEnd.PRESUMED: ("presumed", "Its retry was sent long ago and did not come back."),
}


def _name(request: Request | None) -> str:
    return request.originator if request else "by an operation that is deleted"


def _failure(failed: ShownAttempt) -> str:
    """Say where it failed and why, and what was decided."""
    again = "Its retry failed" if failed.retry_id else "It failed"
    parts = (failed.exception_type, failed.exception_message or failed.failure_reason)
    why = ": ".join(part for part in parts if part)
    decided = f" ({failed.disposition}: {failed.disposition_reason})" if failed.disposition else ""
    return f"{again} on {failed.queue}{': ' if why else ''}{why}{decided}"
