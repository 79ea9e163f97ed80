"""Rows that are new as far as a transaction can see, added many at a time."""

from sqlalchemy import Table
from sqlalchemy.exc import IntegrityError

from retrier.store.engine.refusals import DUPLICATE, state_of
from retrier.store.engine.transaction import ConcurrentChange, Rows, Transaction


def add_new(tx: Transaction, table: Table, rows: Rows) -> None:
    """Add rows in the order given, which is that of their keys wherever others add the same.

    Raises ConcurrentChange if another process has added one of them meanwhile: what it means has
    to be judged again, with its row in sight.
    """
    if not rows:
        return
    try:
        tx.sql.add_rows(tx.conn, table, rows)
    except IntegrityError as error:
        if state_of(error) == DUPLICATE:
            raise ConcurrentChange from error
        raise
