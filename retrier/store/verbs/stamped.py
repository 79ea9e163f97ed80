"""Messages with the stamps of a copy: what they are once it is known whether the stamps are true."""

from collections.abc import Sequence

from sqlalchemy import Connection, select

from retrier.domain.failed_message import Judged, OwnCopy, Received, Stamped
from retrier.store import staging_ids
from retrier.store.database import Database
from retrier.store.schema import installation


def tell_apart(
    db: Database, conn: Connection, received: Sequence[Received]
) -> Sequence[Judged | OwnCopy]:
    """Return what each turns out to be. Without any stamps in the batch nothing is asked."""
    stamped = [item for item in received if isinstance(item, Stamped)]
    ours = _our_id(conn) if stamped else None
    known = staging_ids.find_known(db, conn, [item.staging_id for item in stamped])
    return [
        _tell(item, ours, known=item.staging_id in known) if isinstance(item, Stamped) else item
        for item in received
    ]


def _our_id(conn: Connection) -> str | None:
    return conn.execute(select(installation.c.installation_id)).scalar_one_or_none()


def _tell(stamped: Stamped, ours: str | None, *, known: bool) -> Judged | OwnCopy:
    if stamped.installation_id != ours:
        return stamped.if_anothers
    return stamped.if_ours if known else stamped.if_unknown
