"""A database that can fail in the middle of things: before a verb, or after its commit.

    flaky = FlakyDatabase(database)
    flaky.before = effects.meet        # called with the verb's name; may raise
    flaky.after = effects.meet         # the transaction is committed, and nobody hears of it
    flaky.refuse("open_window")        # the next transaction of that name fails before it begins
    flaky.silence("complete_batch")         # the next one commits, and its answer is lost

A verb's name is that of the store's function: "open_window", "begin_forwarding"; a read is
called "read".
"""

from collections.abc import Callable
from typing import Any, TypeVar

from retrier.errors import DatabaseUnavailable
from retrier.store.engine.database import Database
from retrier.store.engine.transaction import Transaction

T = TypeVar("T")

AWAY = "cannot reach the database: connection refused"


class FlakyDatabase(Database):
    """The same database, over the same engine, with faults."""

    def __init__(self, real: Database) -> None:
        vars(self).update(vars(real))
        self.before: Callable[[str], None] = lambda _verb: None
        self.after: Callable[[str], None] = lambda _verb: None
        self._refused: list[str] = []
        self._silenced: list[str] = []

    def refuse(self, verb: str, *, times: int = 1) -> None:
        """Let the next `times` transactions of this name fail before they begin."""
        self._refused += [verb] * times

    def silence(self, verb: str) -> None:
        """Let the next transaction of this name commit, and its answer be lost."""
        self._silenced.append(verb)

    def heal(self) -> None:
        """Forget the faults to come."""
        self._refused.clear()
        self._silenced.clear()

    def transact(self, verb: Callable[[Transaction], T]) -> T:
        name = name_of(verb)
        self.before(name)
        _meet(self._refused, name)
        result = super().transact(verb)
        self.after(name)
        _meet(self._silenced, name)
        return result

    def read(self, verb: Callable[[Transaction], T]) -> T:
        self.before("read")
        _meet(self._refused, "read")
        return super().read(verb)


def name_of(verb: Any) -> str:
    """Return the name of a store function that may be bound to its arguments."""
    return str(getattr(verb, "func", verb).__name__).strip("_")


def _meet(faults: list[str], name: str) -> None:
    if name in faults:
        faults.remove(name)
        raise DatabaseUnavailable(AWAY)
