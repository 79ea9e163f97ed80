"""How a verb of the processor is fenced: it renews the lease in its own transaction, or fails."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from retrier.errors import LeaseLost
from retrier.store.engine.database import Database
from retrier.store.engine.transaction import Transaction
from retrier.store.engine.verb import InTransaction
from retrier.store.tables import processor_lease

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """The right to commit as the processor, as long as the epoch is still this one."""

    epoch: int
    duration: timedelta


def fenced(body: InTransaction[P, T]) -> Callable[Concatenate[Database, Fence, P], T]:
    """Make one transaction of it that commits only while the epoch lasts, and renews the lease.

    What is called raises LeaseLost, and DatabaseUnavailable.
    """

    @wraps(body)
    def verb(db: Database, fence: Fence, /, *args: P.args, **kwargs: P.kwargs) -> T:
        @wraps(body)
        def run(tx: Transaction) -> T:
            hold(tx, fence)
            return body(tx, *args, **kwargs)

        return db.transact(run)

    return verb


def hold(tx: Transaction, fence: Fence) -> None:
    """Renew the lease in this transaction, whose time is the lease's. Raises LeaseLost."""
    moment = processor_lease.renew(tx, fence.epoch, fence.duration)
    if moment is None:
        raise LeaseLost(f"epoch {fence.epoch} is over")
    tx.hold(fence.epoch, moment)
