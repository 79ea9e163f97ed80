"""How a function of a transaction becomes a verb of the store: called with the database instead."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from retrier.store.engine.database import Database
from retrier.store.engine.transaction import Transaction

P = ParamSpec("P")
T = TypeVar("T")

InTransaction = Callable[Concatenate[Transaction, P], T]
Verb = Callable[Concatenate[Database, P], T]


def writing(body: InTransaction[P, T]) -> Verb[P, T]:
    """Make one transaction of it, that is tried again after a conflict."""

    @wraps(body)
    def verb(db: Database, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return db.transact(bind(body, *args, **kwargs))

    return verb


def reading(body: InTransaction[P, T]) -> Verb[P, T]:
    """Have it look at one consistent view, without any lock."""

    @wraps(body)
    def verb(db: Database, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return db.read(bind(body, *args, **kwargs))

    return verb


def bind(
    body: InTransaction[P, T], *args: P.args, **kwargs: P.kwargs
) -> Callable[[Transaction], T]:
    """Return what is left to be called with the transaction; it keeps its name."""

    @wraps(body)
    def run(tx: Transaction) -> T:
        return body(tx, *args, **kwargs)

    return run
