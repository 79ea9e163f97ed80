"""Rows that are new as far as a transaction can see, added many at a time."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.exc import IntegrityError

from retrier.store.database import ConcurrentChange, Database

_DUPLICATE = "23505"


def add_new(
    db: Database, conn: Connection, table: Table, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Add rows in the order given, which is that of their keys wherever others add the same.

    Raises ConcurrentChange if another process has added one of them meanwhile: what it means has
    to be judged again, with its row in sight.
    """
    if not rows:
        return
    try:
        db.sql.add_rows(conn, table, rows)
    except IntegrityError as error:
        if getattr(error.orig, "sqlstate", None) == _DUPLICATE:
            raise ConcurrentChange from error
        raise
