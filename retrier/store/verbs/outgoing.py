"""Notices of dead messages, and what becomes of copies and notices that were tried.

Settling is not fenced by the lease: what the broker has confirmed is sent, whoever is the processor
by now. With a fence the next processor would send it again.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from uuid import uuid4

from retrier.domain.copies import NOTICE_ID, DeadMessage
from retrier.store.engine.database import writing
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.notices import describe_dead
from retrier.store.tables import outgoing


def add_notices(tx: Transaction, queue: str, dead: Sequence[DeadMessage]) -> None:
    """Have a notice sent to a queue for each message that has become dead in this transaction.

    Part of a larger transaction, to be called after the rows of messages and attempts are written.
    What the notice says, and its id, are written down now: each time it is sent, it is the same.
    """
    if dead:
        told = [(of, {**said, NOTICE_ID: str(uuid4())}) for of, said in describe_dead(tx, dead)]
        outgoing.add_notices(tx, queue, told)


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
