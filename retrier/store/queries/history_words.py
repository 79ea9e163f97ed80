"""What happened to one message, in words: the same in the API and on the page."""

from retrier.domain.failed_message import RetryEnd
from retrier.store.queries.attempts import ShownAttempt
from retrier.store.queries.history_lines import Step
from retrier.store.queries.message_history import HistoryLine, Request

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


def put_into_words(told: HistoryLine) -> tuple[str, str]:
    """Return what happened: its kind for programs, and a sentence for people."""
    if told.event is not None:
        return told.event.kind, told.event.text
    if told.attempt is not None:
        return "failed", _failure(told.attempt)
    if told.outcome is not None:
        return _ENDS[told.outcome]
    kind, text = _STEPS[told.step]
    return kind, text.format(request=_name(told.request))


def _name(request: Request | None) -> str:
    return request.originator if request else "by an operation that is deleted"


def _failure(failed: ShownAttempt) -> str:
    """Say where it failed and why, and what was decided."""
    again = "Its retry failed" if failed.retry_id else "It failed"
    parts = (failed.exception_type, failed.exception_message or failed.failure_reason)
    why = ": ".join(part for part in parts if part)
    said = failed.disposition_reason
    words = f"{failed.disposition}: {said}" if failed.disposition else said
    decided = f" ({words})" if said else ""
    return f"{again} on {failed.queue}{': ' if why else ''}{why}{decided}"
