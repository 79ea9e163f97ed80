"""The list of operations: the standing one first, then what is open, then all, newest first."""

from collections.abc import Sequence
from dataclasses import dataclass

from retrier.domain.retry_operation import RetryOperation
from retrier.store.queries.operations import ListedOperations
from retrier.store.queries.ordering import PageRequest
from retrier.web.snapshot import Snapshot
from retrier.web.views.operations import OperationLine, operation_line
from retrier.web.views.pages import PAGE, Listing

PATH = "/operations"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationList:
    """All that the list shows. `open_now` are alive, wherever in the list they stand."""

    standing: OperationLine | None
    open_now: Sequence[OperationLine]
    listing: Listing[OperationLine]


def operation_list(found: Snapshot, listed: ListedOperations, page: PageRequest) -> OperationList:
    """Return one page of operations; what became of their retries is as it was last counted."""
    alive = {each.operation_id: each for each in found.work.queue.operations}
    others = [each for each in listed.page.items if not each.is_standing]
    standing = [each for each in (*listed.page.items, *alive.values()) if each.is_standing]
    first = page.number == 1
    hidden = set(alive) - {each.operation_id for each in others}
    has_standing = 1 if standing else 0

    def line(each: RetryOperation) -> OperationLine:
        outcomes = found.outcomes.get(each.operation_id)
        schedule = listed.schedule or found.work.queue.schedule
        return operation_line(each, found.at, outcomes, schedule, listed.obstacles)

    return OperationList(
        standing=line(standing[0]) if standing and first else None,
        open_now=[line(alive[key]) for key in sorted(hidden) if not alive[key].is_standing]
        if first
        else (),
        listing=Listing(
            rows=[line(each) for each in others],
            total=max(0, listed.page.total - has_standing),
            number=page.number,
            path=PATH,
            values={},
            size=PAGE,
        ),
    )
