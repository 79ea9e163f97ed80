"""Sets of policies (`policy_sets`): which one each process judges by, as told by itself."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import delete

from retrier.store.engine.transaction import Transaction
from retrier.store.schema import policy_sets

sets = policy_sets.c


def tell(
    tx: Transaction,
    process: Mapping[str, object],
    *,
    set_hash: str,
    file_time: datetime | None,
    loaded_at: datetime,
    problems: Sequence[str],
) -> None:
    """Store what a process judges by; `process` has its session id, instance, host and pid."""
    told = {
        "set_hash": set_hash,
        "file_time": file_time,
        "loaded_at": loaded_at,
        "problems": list(problems),
        "seen_at": tx.now,
    }
    insert = tx.sql.insert(policy_sets).values(**process, **told)
    tx.execute(insert.on_conflict_do_update(index_elements=["session_id"], set_=told))


def forget_silent(tx: Transaction, since: timedelta) -> None:
    """Delete the rows of processes that have told nothing for this long: they have ended."""
    tx.execute(delete(policy_sets).where(sets.seen_at < tx.now - since))


def forget(tx: Transaction, session_id: str) -> None:
    """Delete the row of a process."""
    tx.execute(delete(policy_sets).where(sets.session_id == session_id))
