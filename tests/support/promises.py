"""What must be true when all work is done, whatever happened on the way."""

from collections import Counter
from collections.abc import Collection, Sequence

from retrier.store.operation_requests import CreatedOperation
from tests.support.bench import Bench


def count_lost(bench: Bench, ids: Collection[str]) -> set[str]:
    """Return the messages that were asked for and never arrived."""
    return set(ids) - set(bench.sent())


def count_doubled(bench: Bench) -> set[str]:
    """Return the messages that arrived more than once; none may arrive a third time."""
    times = Counter(bench.sent())
    assert max(times.values(), default=0) <= 2
    return {unique_id for unique_id, number in times.items() if number > 1}


def find_leftovers(bench: Bench) -> list[str]:
    """Return what is left of the work: batches, the pointer, claims that are not recorded."""
    unrecorded = [key for key, row in bench.claims().items() if not row["forwarded_at"]]
    batches = [str(row["batch_id"]) for row in bench.batches()]
    return [*batches, *unrecorded, *filter(None, [bench.pointer()])]


def count_up(bench: Bench, asked: Sequence[CreatedOperation]) -> list[tuple[str, int, int]]:
    """Return state, total, and the sum that must equal it, of each operation."""
    rows = map(bench.operation, asked)
    return [
        (row["state"], row["total"], row["forwarded"] + row["failed"] + row["skipped"])
        for row in rows
    ]
