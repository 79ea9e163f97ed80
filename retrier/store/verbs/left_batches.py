"""Messages that leave their batches because a person did something else with them."""

from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import attrgetter

from retrier.domain.failed_message import RetryEnd
from retrier.store.engine.transaction import Transaction
from retrier.store.tables import retry_operation_messages as named
from retrier.store.tables import retry_operations
from retrier.store.tables.event_log import Entry
from retrier.store.verbs.retry_ends import end_claims


def leave_batches(
    tx: Transaction, keys: Mapping[int, str], how: RetryEnd, *, who: str, became: str
) -> Iterable[Entry]:
    """End the claims of these messages; yield events for those that were not sent.

    `keys` are unique ids by number. The operations count what was not sent as skipped, and say that
    it `became` something before it was sent.
    """
    ended = end_claims(tx, sorted(keys), how)
    unsent = sorted(
        (claim for claim in ended if claim.forwarded_at is None), key=attrgetter("operation_id")
    )
    reason = f"it was {became} before it was sent"
    for operation_id, rows in groupby(unsent, attrgetter("operation_id")):
        numbers = [row.number for row in rows]
        retry_operations.count_skipped(tx, operation_id, len(numbers))
        named.note_dropped(tx, operation_id, numbers, reason)
        for key in map(keys.__getitem__, numbers):
            yield Entry(
                kind="retry_skipped",
                text=f"{key}: not retried: {reason}",
                who=who,
                unique_message_id=key,
                operation_id=operation_id,
            )
