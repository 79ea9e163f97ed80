"""Failed imports: messages that could not be understood, kept as they came."""

from collections.abc import Iterable, Sequence
from uuid import uuid4

from sqlalchemy import ColumnElement, delete, select

from retrier.domain.failed_message import FailedImport
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import failed_imports
from retrier.store.tables.event_log import short


def add(tx: Transaction, imports: Sequence[FailedImport]) -> Sequence[FailedImport]:
    """Keep them; return those that were new.

    A redelivered one with a known fingerprint is the same: a crash between commit and
    acknowledgement must not store it twice. Without the redelivered flag, equal bytes are two.
    """
    known = _known(tx, [item.fingerprint for item in imports if item.redelivered])
    fresh = [item for item in imports if not (item.redelivered and item.fingerprint in known)]
    if fresh:
        tx.execute(failed_imports.insert(), [_row(item) for item in fresh])
    return fresh


def delete_old(tx: Transaction, conditions: Iterable[ColumnElement[bool]], most: int) -> int:
    """Delete those that meet conditions, the oldest first; return how many."""
    column = failed_imports.c.import_id
    query = select(column).where(*conditions).order_by(failed_imports.c.received_at).limit(most)
    ids = tx.execute(query.with_for_update(skip_locked=True)).scalars().all()
    if ids:
        tx.execute(delete(failed_imports).where(tx.sql.member(column, ids)))
    return len(ids)


def _known(tx: Transaction, fingerprints: Sequence[str]) -> frozenset[str]:
    if not fingerprints:
        return frozenset()
    column = failed_imports.c.fingerprint
    return frozenset(
        tx.execute(select(column).where(tx.sql.member(column, fingerprints))).scalars()
    )


def _row(item: FailedImport) -> dict[str, object]:
    return {
        "import_id": str(uuid4()),
        "error_queue": short(item.error_queue),
        "reason": short(item.reason),
        "raw_properties": item.raw,
        "body": item.body,
        "fingerprint": item.fingerprint,
        "received_at": item.received_at,
    }
