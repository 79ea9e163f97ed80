"""Processes that run (`processes`): each writes its own row again and again."""

from collections.abc import Mapping
from datetime import timedelta

from sqlalchemy import delete

from retrier.store.engine.transaction import Transaction
from retrier.store.schema import processes

rows = processes.c


def put(tx: Transaction, process: Mapping[str, object]) -> None:
    """Write a process, seen now."""
    seen = {**process, "seen_at": tx.now}
    insert = tx.sql.insert(processes).values(**seen)
    tx.execute(insert.on_conflict_do_update(index_elements=["session_id"], set_=seen))


def forget(tx: Transaction, session_id: str) -> None:
    """Delete the row of a process."""
    tx.execute(delete(processes).where(rows.session_id == session_id))


def forget_silent(tx: Transaction, since: timedelta) -> None:
    """Delete processes that have written nothing for this long: they have ended."""
    tx.execute(delete(processes).where(rows.seen_at < tx.now - since))
