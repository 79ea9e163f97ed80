"""Stamps of failed imports (`failed_import_sends`): one at most for each import that is sent."""

from collections.abc import Sequence

from sqlalchemy import delete, select, update

from retrier.domain.failed_imports import Send
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import failed_import_sends
from retrier.store.tables.event_log import short

sends = failed_import_sends.c


def find(tx: Transaction, import_ids: Sequence[str]) -> dict[str, Send]:
    """Return the stamps of these imports, by import; the imports are locked."""
    query = select(failed_import_sends).where(tx.sql.member(sends.import_id, import_ids))
    return {
        row.import_id: Send(
            send_id=row.send_id,
            to=row.sending_to,
            since=row.sending_since,
            requested_by=row.requested_by,
        )
        for row in tx.execute(query)
    }


def stamp(tx: Transaction, import_id: str, send: Send) -> None:
    """Stamp an import that has no stamp."""
    tx.execute(failed_import_sends.insert().values(import_id=import_id, **_columns(send)))


def replace(tx: Transaction, import_id: str, send_id: str, send: Send) -> bool:
    """Put another stamp in the place of the one with this id; say whether that was there."""
    mine = (sends.import_id == import_id, sends.send_id == send_id)
    statement = update(failed_import_sends).where(*mine).values(**_columns(send))
    return bool(tx.execute(statement).rowcount)


def remove(tx: Transaction, import_id: str, send_id: str) -> bool:
    """Take the stamp with this id away; say whether it was there."""
    mine = (sends.import_id == import_id, sends.send_id == send_id)
    return bool(tx.execute(delete(failed_import_sends).where(*mine)).rowcount)


def _columns(send: Send) -> dict[str, object]:
    return {
        "send_id": send.send_id,
        "sending_to": send.to,
        "sending_since": send.since,
        "requested_by": short(send.requested_by),
    }
