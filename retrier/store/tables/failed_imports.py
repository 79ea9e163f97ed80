"""Failed imports: messages that could not be understood, kept as they came."""

from collections.abc import Iterable, Mapping, Sequence
from uuid import uuid4

from sqlalchemy import ColumnElement, bindparam, delete, select, update

from retrier.domain.failed_message import FailedImport
from retrier.store.engine.sql_dialect import IN_BINARY
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import failed_imports
from retrier.store.tables.event_log import short

imports = failed_imports.c

_NOTE_REASON = (
    update(failed_imports)
    .where(imports.import_id == bindparam("kept"))
    .values(reason=bindparam("why"))
)


def add(tx: Transaction, new: Sequence[FailedImport]) -> Sequence[FailedImport]:
    """Keep them; return those that were new.

    A redelivered one with a known fingerprint is the same: a crash between commit and
    acknowledgement must not store it twice. Without the redelivered flag, equal bytes are two.
    The caller must share the cut-off before it locks any row.
    """
    known = find_known(tx, [item.fingerprint for item in new if item.redelivered])
    fresh = [item for item in new if not (item.redelivered and item.fingerprint in known)]
    if fresh:
        # A received batch has one time: within it, the ids say what came first.
        ids = sorted(str(uuid4()) for _ in fresh)
        seq = tx.sql.take_entry_number(tx.conn)
        rows = [_row(*pair) | {"stored_seq": seq} for pair in zip(ids, fresh, strict=True)]
        tx.execute(failed_imports.insert(), rows)
    return fresh


def delete_old(tx: Transaction, conditions: Iterable[ColumnElement[bool]], most: int) -> int:
    """Delete those that meet conditions, the oldest first; return how many."""
    column = failed_imports.c.import_id
    query = select(column).where(*conditions).order_by(failed_imports.c.received_at).limit(most)
    ids = tx.execute(query.with_for_update(skip_locked=True)).scalars().all()
    if ids:
        tx.execute(delete(failed_imports).where(tx.sql.member(column, ids)))
    return len(ids)


def find_known(tx: Transaction, fingerprints: Sequence[str]) -> frozenset[str]:
    """Return those of these fingerprints that an import has which is kept."""
    if not fingerprints:
        return frozenset()
    member = tx.sql.member(imports.fingerprint, fingerprints)
    return frozenset(tx.execute(select(imports.fingerprint).where(member)).scalars())


def lock(tx: Transaction, import_ids: Sequence[str]) -> dict[str, FailedImport]:
    """Lock these imports, in the order of their ids; return those that are there.

    In the order in which they came: what they turn into is numbered in that order.
    """
    query = (
        select(failed_imports)
        .where(tx.sql.member(imports.import_id, import_ids))
        .order_by(imports.import_id)
        .with_for_update()
        .execution_options(**{IN_BINARY: True})
    )
    rows = sorted(tx.execute(query), key=lambda row: (row.received_at, row.import_id))
    return {
        row.import_id: FailedImport(
            error_queue=row.error_queue,
            reason=row.reason,
            raw=bytes(row.raw_properties),
            body=bytes(row.body),
            fingerprint=row.fingerprint,
            received_at=row.received_at,
            redelivered=row.redelivered,
        )
        for row in rows
    }


def lock_row(tx: Transaction, import_id: str) -> None:
    """Lock an import, if it is there, without reading its bytes: before its stamp is changed."""
    tx.execute(select(imports.import_id).where(imports.import_id == import_id).with_for_update())


def note_reasons(tx: Transaction, reasons: Mapping[str, str]) -> None:
    """Note why these imports are kept, as of today."""
    if reasons:
        rows = [{"kept": key, "why": short(why)} for key, why in sorted(reasons.items())]
        tx.execute(_NOTE_REASON, rows)


def remove(tx: Transaction, import_ids: Sequence[str]) -> None:
    """Delete these imports, which are locked: they are something else by now, or gone."""
    if import_ids:
        tx.execute(delete(failed_imports).where(tx.sql.member(imports.import_id, import_ids)))


def _row(import_id: str, item: FailedImport) -> dict[str, object]:
    return {
        "import_id": import_id,
        "error_queue": short(item.error_queue),
        "reason": short(item.reason),
        "raw_properties": item.raw,
        "body": item.body,
        "fingerprint": item.fingerprint,
        "received_at": item.received_at,
        "redelivered": item.redelivered,
    }
