"""Failed imports sent to a queue, stamped before and recorded after."""

from dataclasses import dataclass
from typing import assert_never
from uuid import uuid4

from retrier.domain.failed_imports import (
    Doubtful,
    ImportRefusal,
    NotTaken,
    NotTried,
    Send,
    SendOutcome,
    Sent,
    why_not_send,
)
from retrier.store.engine.database import writing
from retrier.store.engine.transaction import Transaction
from retrier.store.tables import event_log, failed_import_sends, failed_imports
from retrier.store.tables.event_log import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class StampedImport:
    """An import that this process, and no other one, may now hand to the broker.

    `before` is the stamp of an earlier send that is in doubt.
    """

    import_id: str
    error_queue: str
    raw: bytes
    body: bytes
    send: Send
    before: Send | None


@writing
def stamp_import(
    tx: Transaction, import_id: str, to: str, *, again: bool, who: str
) -> StampedImport | ImportRefusal:
    """Stamp an import: from now on it may have been sent. Of several who ask one gets it.

    Raises DatabaseUnavailable.
    """
    kept = failed_imports.lock(tx, [import_id]).get(import_id)
    if kept is None:
        return ImportRefusal.UNKNOWN
    before = failed_import_sends.find(tx, [import_id]).get(import_id)
    refusal = why_not_send(before, tx.now, again=again)
    if refusal is not None:
        return refusal
    send = Send(send_id=str(uuid4()), to=to, since=tx.now, requested_by=who)
    if before is None:
        failed_import_sends.stamp(tx, import_id, send)
    else:
        failed_import_sends.replace(tx, import_id, before.send_id, send)
    stamped = StampedImport(
        import_id=import_id,
        error_queue=kept.error_queue,
        raw=kept.raw,
        body=kept.body,
        send=send,
        before=before,
    )
    _note(tx, stamped, "import_stamped", f"is being sent to {to}{' again' if before else ''}.")
    return stamped


@writing
def record_send(tx: Transaction, stamped: StampedImport, outcome: SendOutcome) -> None:
    """Record what became of it: gone if the broker has it, else as it was before the stamp.

    In doubt it stays stamped. Raises DatabaseUnavailable.
    """
    failed_imports.lock_row(tx, stamped.import_id)
    to = stamped.send.to
    match outcome:
        case Sent():
            if failed_import_sends.remove(tx, stamped.import_id, stamped.send.send_id):
                failed_imports.remove(tx, [stamped.import_id])
            _note(tx, stamped, "import_sent", f"was sent to {to}, as it came.")
        case NotTaken(reason=reason) | NotTried(reason=reason):
            _unstamp(tx, stamped)
            _note(tx, stamped, "import_not_sent", f"was not sent to {to}: {reason}")
        case Doubtful(reason=reason):
            words = f"may have been sent to {to}, and nobody knows: {reason}"
            _note(tx, stamped, "import_in_doubt", words)
        case _ as never:
            assert_never(never)


def _unstamp(tx: Transaction, stamped: StampedImport) -> None:
    """Take the stamp back. One that was in doubt before is so still: its earlier send is open."""
    if stamped.before is None:
        failed_import_sends.remove(tx, stamped.import_id, stamped.send.send_id)
    else:
        failed_import_sends.replace(tx, stamped.import_id, stamped.send.send_id, stamped.before)


def _note(tx: Transaction, stamped: StampedImport, kind: str, words: str) -> None:
    text = f"The failed import {stamped.import_id} from {stamped.error_queue} {words}"
    details: dict[str, object] = {"import_id": stamped.import_id, "queue": stamped.send.to}
    entry = Entry(kind=kind, text=text, who=stamped.send.requested_by, details=details)
    event_log.append(tx, [entry])
