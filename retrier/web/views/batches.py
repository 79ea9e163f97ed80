"""Batches alive: where each stands, why it waits, and which of its messages are in doubt."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from retrier.domain.retry_batch import RetryBatchStatus
from retrier.store.queries.batches import BatchCount, BatchDetails
from retrier.store.queries.messages import ShownClaim
from retrier.web.wording import number, plural, sentence

SHOWN_CLAIMS = 20

_STAGES = {
    RetryBatchStatus.MARKING: "Its messages are being claimed. None of them is sent yet.",
    RetryBatchStatus.STAGING: "Copies are being put into the staging queue.",
    RetryBatchStatus.FORWARDING: "Its copies are being sent to their queues, one after another.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchView:
    """One batch. `claims` are the first of those in doubt; `doubt` says what that means."""

    batch_id: str
    operation_id: str
    status: str
    stage: str
    text: str
    reason: str | None
    not_before: datetime | None
    since: datetime
    in_doubt: int
    doubt: str
    claims: Sequence[ShownClaim]


def batch_view(counted: BatchCount, found: BatchDetails | None = None) -> BatchView:
    """Return a batch as people see it."""
    batch = counted.batch
    return BatchView(
        batch_id=batch.batch_id,
        operation_id=batch.operation_id,
        status=batch.status.value,
        stage=_STAGES[batch.status],
        text=f"{number(counted.forwarded)} of {plural(counted.claims, 'message')} sent",
        reason=None if batch.reason is None else sentence(batch.reason),
        not_before=batch.not_before,
        since=batch.created_at,
        in_doubt=counted.in_doubt,
        doubt=_doubt(counted.in_doubt),
        claims=() if found is None else found.in_doubt[:SHOWN_CLAIMS],
    )


def _doubt(count: int) -> str:
    if count == 0:
        return "Nothing is in doubt."
    verb = "is" if count == 1 else "are"
    return (
        f"{plural(count, 'message')} {verb} in doubt: handed to the broker, and it is not recorded yet "
        "whether it has them. While the processor works this lasts for a moment. After a crash or a "
        "lost connection they may be sent once more, under the same retry id: by that a consumer "
        "can drop the second copy."
    )
