"""By which sets of policies the processes judge."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, func, select

from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import policy_sets

sets = policy_sets.c

SILENT = timedelta(seconds=90)
"""A process that has told nothing for so long has ended: it tells every 30 seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingProcess:
    """A process, the set by which it judges, and the problems of a newer file it did not take."""

    session_id: str
    instance: str
    host: str
    pid: int
    set_hash: str
    file_time: datetime | None
    loaded_at: datetime
    problems: tuple[str, ...]
    seen_at: datetime


@reading
def list_judging_processes(tx: Transaction) -> tuple[JudgingProcess, ...]:
    """Return the processes that judge by policies now. Raises DatabaseUnavailable."""
    query = select(policy_sets).where(_alive(tx)).order_by(sets.instance, sets.host, sets.pid)
    rows = (dict(row) for row in tx.execute(query).mappings())
    return tuple(JudgingProcess(**row | {"problems": tuple(row["problems"])}) for row in rows)


def count_sets(tx: Transaction) -> int:
    """Return by how many different sets the processes judge."""
    query = select(func.count(sets.set_hash.distinct())).where(_alive(tx))
    return int(tx.execute(query).scalar_one())


def _alive(tx: Transaction) -> ColumnElement[bool]:
    return sets.seen_at >= tx.now - SILENT
