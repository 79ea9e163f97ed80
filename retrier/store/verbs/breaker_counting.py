"""Counting for breakers, in the transactions in which retries are recorded and end.

A claim says under which breaker it is counted, and when it was sent (`sending_since`). Only the
processor gives claims a breaker: without one configured nothing here costs a query.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from operator import itemgetter

from sqlalchemy import select

from retrier.domain.breakers import (
    CAME_BACK,
    CONFIRMED,
    RETURNED,
    SENT,
    BreakerState,
    Counted,
    Moment,
    add_up,
    begin_of,
)
from retrier.domain.failed_message import RetryEnd
from retrier.domain.retry_batch import Ejected, RevertCause
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.schema import breakers
from retrier.store.tables import breaker_counts
from retrier.store.tables.breakers import GRAINS

columns = breakers.c

OUTCOMES_KEPT = timedelta(days=1)
"""How far back the last outcomes are looked for."""
_OUTCOMES = {RetryEnd.CONFIRMED: CONFIRMED, RetryEnd.FAILED: CAME_BACK}
_SENT_NOWHERE = frozenset({RevertCause.RETURNED, RevertCause.REFUSED})


def count_sent(tx: Transaction, recorded: Iterable[StoredRow]) -> None:
    """Count retries that are recorded as sent now; all of them have a breaker."""
    _count(tx, ((_moment(claim), SENT) for claim in recorded))


def count_reverted(
    tx: Transaction, ended: Iterable[StoredRow], ejected: Mapping[int, Ejected]
) -> None:
    """Count retries that the broker returned or refused; others were never sent."""
    _count(
        tx,
        (
            (_moment(claim), RETURNED)
            for claim in ended
            if _is_counted(claim) and ejected[claim.number].cause in _SENT_NOWHERE
        ),
    )


def count_outcomes(tx: Transaction, ended: Mapping[RetryEnd, Sequence[StoredRow]]) -> None:
    """Count retries that came back or were confirmed.

    One that is not recorded was sent evidently: recording it later finds no claim.
    """
    _count(
        tx,
        (
            (_moment(claim), _OUTCOMES[how] if claim.forwarded_at else _OUTCOMES[how] + SENT)
            for how, claims in ended.items()
            for claim in claims
            if _is_counted(claim)
        ),
    )


def _is_counted(claim: StoredRow) -> bool:
    return claim.breaker_id is not None and claim.sending_since is not None


def _moment(claim: StoredRow) -> Moment:
    return claim.breaker_id, claim.sending_since


def _count(tx: Transaction, counted: Iterable[tuple[Moment, Counted]]) -> None:
    sums = add_up(counted)
    if not sums:
        return
    # Read after the claims: whoever stamped a claim after a change of its breaker had committed
    # that change. So nothing is counted for a time before the change by mistake.
    known = _look_up(tx, sorted({breaker_id for breaker_id, _ in sums}))
    placed = (
        ((breaker_id, begin), _last(each, known[breaker_id].last_outcomes))
        for (breaker_id, sent_at), each in sorted(sums.items(), key=itemgetter(0))
        if breaker_id in known and (begin := _begin_of(known[breaker_id], sent_at)) is not None
    )
    breaker_counts.count(tx, add_up(placed))
    breaker_counts.forget(tx, {key: tx.now - _kept(row) for key, row in known.items()})
    if any(row.state == BreakerState.HALF_OPEN for row in known.values()):
        # Perhaps the one that tries it has its outcome: the processor is to look now.
        tx.sql.announce_request(tx.conn)


def _look_up(tx: Transaction, ids: Sequence[int]) -> Mapping[int, StoredRow]:
    query = select(
        columns.breaker_id,
        columns.changed_at,
        columns.grain_ms,
        columns.last_outcomes,
        columns.state,
    ).where(tx.sql.member(columns.breaker_id, ids), columns.grain_ms.is_not(None))
    return {row.breaker_id: row for row in tx.execute(query)}


def _begin_of(breaker: StoredRow, sent_at: datetime) -> datetime | None:
    return begin_of(sent_at, timedelta(milliseconds=breaker.grain_ms), breaker.changed_at)


def _kept(breaker: StoredRow) -> timedelta:
    if breaker.last_outcomes is not None:
        return OUTCOMES_KEPT
    return timedelta(milliseconds=breaker.grain_ms) * (GRAINS + 1)


def _last(counted: Counted, most: int | None) -> Counted:
    """Keep as many outcomes as are looked at; none if only a time is."""
    return replace(counted, outcomes=counted.outcomes[-most:] if most else "")
