"""What is asked before an operation is cancelled: how many it would not send any more."""

from retrier.domain.retry_operation import Cancel
from retrier.store.queries.batches import BatchDetails
from retrier.store.queries.operations import OperationDetails
from retrier.web.views.confirmations import Confirmation
from retrier.web.views.operation_page import refuse_now
from retrier.web.wording import plural, sentence

_PAUSE = "Pause it instead: it stays paused until somebody resumes it."


def cancelling(found: OperationDetails, batch: BatchDetails | None) -> Confirmation:
    """Return the question; nothing is asked where a cancel would be refused."""
    shown = found.operation
    address = f"/operations/{shown.operation_id}"
    why_not = "it is cancelled already" if shown.cancel_asked else refuse_now(shown, Cancel())
    if why_not is not None:
        return Confirmation(
            title="It cannot be cancelled",
            lead=sentence(why_not),
            act="",
            post_to=f"{address}/cancel",
            back=address,
            notes=[_PAUSE] if shown.is_standing else [],
            is_empty=True,
        )
    return Confirmation(
        title="Cancel this operation?",
        lead=shown.originator[:1].upper() + shown.originator[1:],
        act=f"Cancel it, and leave {plural(shown.remaining, 'message')} unsent",
        post_to=f"{address}/cancel",
        back=address,
        counts=_counts(found, batch),
        notes=["A cancelled operation does not begin again. A paused one does."],
        leave="Keep it",
    )


def _counts(found: OperationDetails, batch: BatchDetails | None) -> list[str]:
    shown = found.operation
    sent, left = (plural(count, "message") for count in (shown.forwarded, shown.remaining))
    counts = [
        f"Sent already, and not to be taken back: {sent}.",
        f"Not sent yet: {left}. What is not sent stays unresolved, and can be retried later.",
    ]
    if batch is not None and batch.counted.in_doubt:
        count = plural(batch.counted.in_doubt, "message")
        counts.append(f"In doubt: {count}. These may have been sent already, and are finished.")
    return counts
