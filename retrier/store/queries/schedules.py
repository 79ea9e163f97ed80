"""The schedule: how many messages are scheduled, when the first is due, and what holds that one."""

from sqlalchemy import func, select

from retrier.domain.schedule import Schedule
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.breaker_waits import why_each_waits
from retrier.store.queries.due import FIRST, free
from retrier.store.queries.stream_order import tell_those_held
from retrier.store.schema import SCHEDULED, failed_messages

messages = failed_messages.c
_SCHEDULED = select(func.count()).select_from(failed_messages).where(SCHEDULED).scalar_subquery()
_SCHEDULE = select(_SCHEDULED, FIRST)
_FIRST_NUMBER = (
    select(messages.number)
    .where(*free())
    .order_by(messages.retry_at, messages.failure_seq)
    .limit(1)
)


def find_schedule(tx: Transaction) -> Schedule:
    """Count what is scheduled, and find when the first message is due; if it is due, what holds it."""
    scheduled, first = tx.execute(_SCHEDULE).one()
    held = None if first is None or first > tx.now else _why_first_waits(tx)
    return Schedule(scheduled=scheduled, next_at=first, held=held)


def _why_first_waits(tx: Transaction) -> str | None:
    first = tx.execute(_FIRST_NUMBER).scalars().all()
    # No more than one, and none if it went meanwhile.
    return next(
        iter([*tell_those_held(tx, first).values(), *why_each_waits(tx, first).values()]), None
    )
