"""Whether error queues were read past a moment, and whether anybody wants to know."""

from datetime import datetime

from sqlalchemy import exists, select

from retrier.domain.error_queue_reads import QueueRead, why_unread
from retrier.domain.retry_operation import CanaryState
from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import error_queue_reads, retry_operation_canaries

reads = error_queue_reads.c

_SHOWN = (reads.queue, reads.host, reads.seen_at, reads.level_at, reads.ready, reads.stopped)


def find_why_unread(tx: Transaction, moment: datetime) -> str | None:
    """Say why something from before `moment` may be unread; None if all is read."""
    found = [QueueRead(**row) for row in tx.execute(select(*_SHOWN)).mappings()]
    return why_unread(found, min(moment, tx.now), tx.now)


@reading
def is_any_canary_waiting(tx: Transaction) -> bool:
    """Say whether a canary waits for its verdict. Raises DatabaseUnavailable."""
    waiting = retry_operation_canaries.c.state == CanaryState.WAITING
    return bool(tx.execute(select(exists().where(waiting))).scalar_one())
