"""Whether any process works with a database."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import select

from retrier.store.engine.database import reading
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import error_queue_reads
from retrier.store.tables.processor_lease import Holder, find_holder

HEARD = timedelta(seconds=90)
"""A process of which nothing is known but that it wrote something may be alive for so long."""

reads = error_queue_reads.c


@dataclass(frozen=True, slots=True)
class Users:
    """A phrase for each sign that a process works with a database.

    A session of a process that was killed is there for a moment more.
    """

    processes: tuple[str, ...]
    sessions: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.processes or self.sessions)

    def __str__(self) -> str:
        return "; ".join([*self.processes, *self.sessions])


@reading
def find_users(
    tx: Transaction, is_dead: Callable[[Holder], bool], is_alive: Callable[[Holder], bool]
) -> Users:
    """Return the signs that a process works with it.

    A process of another host can be found neither dead nor alive: what it has written lately
    counts. Raises DatabaseUnavailable.
    """
    processes = dict.fromkeys([*_leading(tx, is_dead), *_reading(tx, is_dead, is_alive)])
    return Users(tuple(processes), tuple(dict.fromkeys(_connected(tx))))


def _leading(tx: Transaction, is_dead: Callable[[Holder], bool]) -> Iterator[str]:
    holder = find_holder(tx)
    if holder is not None and not is_dead(holder):
        yield f"process {holder.pid} on {holder.host} holds the lease of the processor"


def _reading(
    tx: Transaction, is_dead: Callable[[Holder], bool], is_alive: Callable[[Holder], bool]
) -> Iterator[str]:
    columns = (reads.session_id, reads.host, reads.pid, reads.process_started, reads.seen_at)
    for session_id, host, pid, started, seen_at in tx.execute(
        select(*columns).where(~reads.stopped)
    ):
        process = Holder(session_id=session_id, host=host, pid=pid, process_started=started)
        if is_alive(process) or (seen_at > tx.now - HEARD and not is_dead(process)):
            yield f"process {pid} on {host} reads error queues"


def _connected(tx: Transaction) -> Iterator[str]:
    for address in tx.sql.find_sessions(tx.conn):
        yield f"Retrier is connected from {address}"
