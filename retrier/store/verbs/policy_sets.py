"""Sets of policies: each process tells by which one it judges."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from retrier.store.engine.database import writing
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.policy_sets import SILENT
from retrier.store.tables import event_log, policy_sets
from retrier.store.tables.event_log import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldSet:
    """What a process judges by, and the problems of a newer file that it did not take."""

    session_id: str
    instance: str
    host: str
    pid: int
    set_hash: str
    file_time: datetime | None
    loaded_at: datetime
    problems: tuple[str, ...] = ()


@writing
def tell_set(tx: Transaction, told: ToldSet, *, news: Sequence[str] = ()) -> None:
    """Store what a process judges by, and forget processes that have told nothing for long.

    `news` are problems that the event log does not have yet. Raises DatabaseUnavailable.
    """
    names = ("session_id", "instance", "host", "pid")
    policy_sets.tell(
        tx,
        {name: getattr(told, name) for name in names},
        set_hash=told.set_hash,
        file_time=told.file_time,
        loaded_at=told.loaded_at,
        problems=told.problems,
    )
    policy_sets.forget_silent(tx, SILENT)
    event_log.append(tx, [_entry(told, news)] if news else [])


@writing
def forget_set(tx: Transaction, session_id: str) -> None:
    """Forget what a process judged by: it has no policies any more. Raises DatabaseUnavailable."""
    policy_sets.forget(tx, session_id)


def _entry(told: ToldSet, problems: Sequence[str]) -> Entry:
    return Entry(
        kind="policies_wrong",
        text=(
            f"The policies of {told.instance} on {told.host} have {len(problems)} problems; "
            f"those before them stay in force: {'; '.join(problems)}"
        ),
        details={"problems": list(problems), "set_hash": told.set_hash, "pid": told.pid},
    )
