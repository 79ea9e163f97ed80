"""What becomes of copies that were tried: sent, or put off.

Not fenced by the lease: a copy that the broker has confirmed is sent, whoever is the processor by
now. With a fence the next processor would send it again.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from retrier.store.engine.database import writing
from retrier.store.engine.transaction import Transaction
from retrier.store.tables import outgoing


@writing
def settle_outgoing(
    tx: Transaction, sent: Sequence[int], refused: Mapping[int, str], wait: timedelta
) -> None:
    """Delete the rows that are sent, and put off those that were refused, with their reasons.

    Raises DatabaseUnavailable.
    """
    if sent:
        outgoing.remove(tx, sent)
    if refused:
        outgoing.put_off(tx, refused, tx.now + wait)
