"""What was counted for breakers (`breaker_counts`): each thread adds to rows of its own."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import delete

from retrier.domain.breakers import Counted, Moment
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import breaker_counts

counts = breaker_counts.c

_ADDED = ("sent", "returned", "came_back", "confirmed", "outcomes")


def count(tx: Transaction, sums: Mapping[Moment, Counted]) -> None:
    """Add to the rows of this thread, in the order of their keys; one statement for all.

    The processor holds the lease meanwhile, and in an outage there are as many as messages.
    """
    if not sums:
        return
    keys = sorted(sums)
    columns: dict[str, list[Any]] = {
        "breaker_id": [breaker_id for breaker_id, _ in keys],
        "since": [since for _, since in keys],
        **{name: [getattr(sums[key], name) for key in keys] for name in _ADDED},
    }
    insert = tx.sql.insert_columns(breaker_counts, columns, {"counted_by": tx.counted_by})
    more = {name: counts[name].concat(insert.excluded[name]) for name in ("outcomes",)} | {
        name: counts[name] + insert.excluded[name] for name in _ADDED[:-1]
    }
    same = ["breaker_id", "since", "counted_by"]
    tx.execute(insert.on_conflict_do_update(index_elements=same, set_=more))


def forget(tx: Transaction, before: Mapping[int, datetime]) -> None:
    """Delete what this thread counted for these breakers before these times.

    One statement for each time, and not for each breaker: most of them have one time.
    """
    by_time: dict[datetime, list[int]] = {}
    for breaker_id, moment in sorted(before.items()):
        by_time.setdefault(moment, []).append(breaker_id)
    for moment, ids in by_time.items():
        old = (counts.counted_by == tx.counted_by, counts.since < moment)
        tx.execute(delete(breaker_counts).where(tx.sql.member(counts.breaker_id, ids), *old))


def sweep(tx: Transaction, before: datetime) -> int:
    """Delete what was counted before that, by any thread; return how many rows."""
    old = counts.since < before
    return tx.execute(delete(breaker_counts).where(old)).rowcount
