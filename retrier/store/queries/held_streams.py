"""Figures about what streams hold, for metrics."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from sqlalchemy import case, exists, func, or_, select

from retrier.domain.failed_message import FailedMessageStatus
from retrier.domain.streams import HeadState
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.stream_order import HEAD_NUMBER, IS_HELD, is_any_strict
from retrier.store.schema import failed_message_retries, failed_messages

heads = failed_messages.alias("head")
claims = failed_message_retries.c


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFigures:
    """How many messages are held, and how many streams, by the state of the head that holds them.

    `oldest_head` is for how long that head has not changed that stands longest; None without one.
    """

    messages: int = 0
    streams: Mapping[HeadState, int] = field(default_factory=dict)
    oldest_head: timedelta | None = None


NOTHING_HELD = HeldFigures()

_HELD = select(HEAD_NUMBER.label("head")).select_from(failed_messages).where(IS_HELD).subquery()
_BEHIND = (
    select(_HELD.c.head, func.count().label("count")).group_by(_HELD.c.head).subquery("behind")
)
_SENT = or_(
    heads.c.status == FailedMessageStatus.RETRY_ISSUED,
    exists().where(claims.number == heads.c.number),
)
_STATE = case((_SENT, HeadState.ON_ITS_WAY.value), else_=heads.c.disposition).label("state")
_BY_HEAD = select(_STATE, _BEHIND.c["count"], heads.c.last_modified).join_from(
    _BEHIND, heads, heads.c.number == _BEHIND.c.head
)


def count_held(tx: Transaction) -> HeldFigures:
    """Return what streams hold now; without a strict message that is one look into an empty index."""
    if not is_any_strict(tx):
        return NOTHING_HELD
    each = _BY_HEAD.subquery("each")
    summed = func.sum(each.c["count"]).label("messages")
    oldest = func.min(each.c.last_modified).label("oldest")
    rows = tx.execute(select(each.c.state, func.count(), summed, oldest).group_by(each.c.state))
    found = rows.all()
    return HeldFigures(
        messages=int(sum(row.messages for row in found)),
        streams={HeadState(state): count for state, count, *_ in found},
        oldest_head=max((max(timedelta(0), tx.now - row.oldest) for row in found), default=None),
    )
