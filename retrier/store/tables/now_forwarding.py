"""The pointer (`retry_batch_now_forwarding`): the one batch that is in Forwarding, if any."""

from sqlalchemy import bindparam, delete

from retrier.store.engine.transaction import Transaction
from retrier.store.schema import retry_batch_now_forwarding

_POINT_AT = retry_batch_now_forwarding.insert().values(id=1, batch_id=bindparam("batch"))
_CLEAR = delete(retry_batch_now_forwarding).where(
    retry_batch_now_forwarding.c.batch_id == bindparam("batch")
)


def point_at(tx: Transaction, batch_id: str) -> None:
    """Point at the batch. Raises IntegrityError if the pointer is set: only one row may exist."""
    tx.execute(_POINT_AT, {"batch": batch_id})


def clear(tx: Transaction, batch_id: str) -> None:
    """Delete the pointer if it names this batch."""
    tx.execute(_CLEAR, {"batch": batch_id})
