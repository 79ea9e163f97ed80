"""Staging ids (`staging_ids`): committed before anything is sent under them (decision 0020)."""

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import delete, select

from retrier.store.engine.transaction import Transaction
from retrier.store.schema import retry_batches, staging_ids

made = staging_ids.c


def add(tx: Transaction, ids: Sequence[str]) -> None:
    """Store these ids; one that exists gets a new `made_at`, so that it is kept longer."""
    new = tx.sql.insert(staging_ids)
    tx.execute(
        new.on_conflict_do_update(
            index_elements=["staging_id"], set_={"made_at": new.excluded["made_at"]}
        ),
        [{"staging_id": staging_id, "made_at": tx.now} for staging_id in ids],
    )


def find_known(tx: Transaction, ids: Collection[str]) -> frozenset[str]:
    """Return those of these ids that are stored."""
    if not ids:
        return frozenset()
    wanted = tx.sql.member(made.staging_id, sorted(set(ids)))
    return frozenset(tx.execute(select(made.staging_id).where(wanted)).scalars())


def sweep(tx: Transaction, before: datetime, at_once: int) -> int:
    """Delete ids from before that, at most `at_once`; return how many. The ids of existing batches stay."""
    alive = select(retry_batches.c.staging_id).where(retry_batches.c.staging_id == made.staging_id)
    oldest = select(made.staging_id).where(made.made_at < before, ~alive.exists())
    swept = delete(staging_ids).where(
        made.staging_id.in_(oldest.order_by(made.made_at).limit(at_once))
    )
    return tx.execute(swept).rowcount
