"""The table of an unfinished copy (`unfinished_copy`): it stands in the target of `db copy` only.

It is no part of the schema: it is made when a copy begins, and dropped when it is finished.
"""

import json
from collections.abc import Mapping

from sqlalchemy import Column, MetaData, String, Table, Text, delete, select

from retrier.store.engine.transaction import Transaction

unfinished_copy = Table(
    "unfinished_copy",
    MetaData(),
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)

_ORIGIN = "origin"
_OF_A_TABLE = "table:"


def begin(tx: Transaction, origin: Mapping[str, str]) -> None:
    """Make the table, and write down what is copied."""
    unfinished_copy.create(tx.conn)
    put(tx, _ORIGIN, origin)


def find_origin(tx: Transaction) -> Mapping[str, str]:
    """Return what is copied, as `begin` wrote it."""
    return dict(_all(tx)[_ORIGIN])


def put_progress(tx: Transaction, table: str, progress: Mapping[str, object]) -> None:
    """Write how far a table is copied, in the transaction that adds its rows."""
    put(tx, f"{_OF_A_TABLE}{table}", progress)


def list_progress(tx: Transaction) -> Mapping[str, Mapping[str, object]]:
    """Return how far each table is copied, by its name."""
    return {
        name.removeprefix(_OF_A_TABLE): value
        for name, value in _all(tx).items()
        if name.startswith(_OF_A_TABLE)
    }


def forget_progress(tx: Transaction) -> None:
    """Say that nothing is copied yet."""
    tx.execute(delete(unfinished_copy).where(unfinished_copy.c.name != _ORIGIN))


def end(tx: Transaction) -> None:
    """Drop the table: the copy is finished."""
    unfinished_copy.drop(tx.conn)


def put(tx: Transaction, name: str, value: object) -> None:
    """Write one row."""
    row = tx.sql.insert(unfinished_copy).values(name=name, value=json.dumps(value))
    tx.execute(
        row.on_conflict_do_update(index_elements=["name"], set_={"value": row.excluded.value})
    )


def _all(tx: Transaction) -> dict[str, dict[str, str]]:
    rows = tx.execute(select(unfinished_copy)).all()
    return {row.name: json.loads(row.value) for row in rows}
