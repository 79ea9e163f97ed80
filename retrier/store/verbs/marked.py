"""What became of a cut: a batch that is opened, or one that is marked."""

from dataclasses import dataclass

from retrier.domain.retry_operation import Priority, RetryOperation
from retrier.store.queries.cuts import Cut
from retrier.store.queries.next_cut import Sight
from retrier.store.verbs.retry_ends import CutEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedBatch:
    """A new batch in Marking, and the operation that it is cut from; `mark`: see HeldLooks.

    `sight` is what was seen before of what it will take.
    """

    batch_id: str
    operation: RetryOperation
    mark: str | None = None
    sight: Sight | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedBatch:
    """The result of a cut; `end` is what follows if it found nothing, else None.

    `mark`: see HeldLooks.
    """

    batch_id: str
    operation_id: str
    priority: Priority
    claimed: int
    skipped: int
    end: CutEnd | None
    mark: str | None = None


def make_marked(opened: OpenedBatch, cut: Cut, claimed: int, end: CutEnd | None) -> MarkedBatch:
    """Return what a cut of this opened batch came to."""
    return MarkedBatch(
        batch_id=opened.batch_id,
        operation_id=opened.operation.operation_id,
        priority=opened.operation.priority,
        claimed=claimed,
        skipped=len(cut.skipped),
        end=end,
        mark=opened.mark,
    )
