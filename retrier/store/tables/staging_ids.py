"""Staging ids: written before anything goes out under them, so that a copy of ours is known."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from functools import partial

from sqlalchemy import Connection, delete, select

from retrier.store.database import Database
from retrier.store.lease import Fence, hold
from retrier.store.schema import retry_batches, staging_ids

_SWEPT_AT_ONCE = 1000


def record_staging_ids(db: Database, fence: Fence, ids: Sequence[str]) -> None:
    """Write these staging ids down; one that is there is as if it were made now.

    Raises LeaseLost, DatabaseUnavailable.
    """
    db.transact(partial(_note_ids, db, fence, ids))


def find_known(db: Database, conn: Connection, ids: Collection[str]) -> frozenset[str]:
    """Return those of them that were made here."""
    if not ids:
        return frozenset()
    column = staging_ids.c.staging_id
    wanted = db.sql.member(column, sorted(set(ids)))
    return frozenset(conn.execute(select(column).where(wanted)).scalars())


def sweep_staging_ids(db: Database, *, older_than: timedelta) -> int:
    """Delete ids older than that, a thousand in each transaction; return how many.

    The id of a batch that is alive stays, however long that takes. Raises DatabaseUnavailable.
    """
    swept = deleted = db.transact(partial(_sweep, db, older_than))
    while deleted == _SWEPT_AT_ONCE:
        deleted = db.transact(partial(_sweep, db, older_than))
        swept += deleted
    return swept


def _note_ids(db: Database, fence: Fence, ids: Sequence[str], conn: Connection) -> None:
    now = hold(db, conn, fence)
    new = db.sql.insert(staging_ids)
    conn.execute(
        new.on_conflict_do_update(
            index_elements=["staging_id"], set_={"made_at": new.excluded["made_at"]}
        ),
        [{"staging_id": staging_id, "made_at": now} for staging_id in ids],
    )


def _sweep(db: Database, older_than: timedelta, conn: Connection) -> int:
    made = staging_ids.c
    limit = db.sql.now(conn) - older_than
    alive = select(retry_batches.c.staging_id).where(retry_batches.c.staging_id == made.staging_id)
    oldest = select(made.staging_id).where(made.made_at < limit, ~alive.exists())
    swept = delete(staging_ids).where(
        made.staging_id.in_(oldest.order_by(made.made_at).limit(_SWEPT_AT_ONCE))
    )
    return conn.execute(swept).rowcount
