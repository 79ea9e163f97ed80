"""The ledger and the rows it is compared with, on one view of the database."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import func, select

from retrier.domain.failed_message import FailedMessageStatus
from retrier.store.engine.transaction import Transaction
from retrier.store.engine.verb import reading
from retrier.store.schema import failed_messages, ledger

KINDS_OF_DELIVERY = (
    "new",
    "repeated",
    "redelivered",
    "confirmations",
    "own_copies",
    "failed_imports",
)
"""What a delivery that was taken off is counted as."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What was counted as it happened (`entries`), and the failed messages there are now."""

    entries: Mapping[str, int]
    stored: Mapping[FailedMessageStatus, int]

    @property
    def uncounted_deliveries(self) -> int:
        """Deliveries taken off that were counted as nothing; 0 when everything adds up."""
        return self.entry("taken_off") - sum(map(self.entry, KINDS_OF_DELIVERY))

    @property
    def missing_messages(self) -> int:
        """New messages that are neither stored nor deleted; 0 when everything adds up."""
        return self.entry("new") - self.entry("deleted") - sum(self.stored.values())

    def entry(self, name: str) -> int:
        """Return one entry over all instances; one that was never counted up is 0."""
        return self.entries.get(name, 0)


def find_ledger(tx: Transaction) -> Ledger:
    """Return the ledger as this transaction sees it."""
    counted = select(ledger.c.entry, func.sum(ledger.c.count)).group_by(ledger.c.entry)
    status = failed_messages.c.status
    stored = select(status, func.count()).group_by(status)
    return Ledger(
        entries={entry: int(count) for entry, count in tx.execute(counted)},
        stored={FailedMessageStatus(name): count for name, count in tx.execute(stored)},
    )


read_ledger = reading(find_ledger)
"""The same, in a transaction of its own. Raises DatabaseUnavailable."""
