"""The installation: a random id by which two Retriers on one broker tell their copies apart."""

from functools import partial
from uuid import uuid4

from sqlalchemy import Connection, select

from retrier.store.database import Database
from retrier.store.schema import installation


def get_installation_id(db: Database) -> str:
    """Return this database's installation id, making it at the first call."""
    return db.transact(partial(_get, db))


def probe_write(db: Database) -> None:
    """Prove that the database takes writes. Raises DatabaseUnavailable."""
    db.transact(partial(_get, db))


def _get(db: Database, conn: Connection) -> str:
    insert = db.sql.insert(installation).values(
        id=1, installation_id=str(uuid4()), created_at=db.sql.now(conn)
    )
    # An update, also of an existing row: only a write proves that writes work.
    conn.execute(
        insert.on_conflict_do_update(
            index_elements=["id"], set_={"installation_id": installation.c.installation_id}
        )
    )
    return str(conn.execute(select(installation.c.installation_id)).scalar_one())


def probe_read(db: Database) -> None:
    """Prove that the database answers. Raises DatabaseUnavailable."""
    db.read(lambda conn: conn.execute(select(1)))
