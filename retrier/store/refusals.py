"""Tells the event log who was refused: one entry for many."""

from collections.abc import Sequence

from retrier.domain.access import Refusals
from retrier.store import event_log
from retrier.store.engine.database import writing
from retrier.store.engine.transaction import Transaction
from retrier.store.event_log import Entry

_NOBODY = "anonymous"


@writing
def note_refusals(tx: Transaction, refused: Sequence[Refusals]) -> None:
    """Write an entry for each address and reason. Raises DatabaseUnavailable."""
    event_log.append(
        tx,
        [
            Entry(
                kind="access_refused",
                text=f"refused{_times(each.count)}: {each.reason}",
                who=f"{each.who or _NOBODY} ({each.address})",
                details={"count": each.count, "address": each.address, "reason": each.reason},
            )
            for each in refused
        ],
    )


def _times(count: int) -> str:
    return "" if count == 1 else f" {count:,} times"
