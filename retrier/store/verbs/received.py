"""Recording one received batch from an error queue: everything it changes, in one transaction."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

from sqlalchemy import Connection

from retrier.domain.failed_message import (
    Confirmation,
    FailedImport,
    Failure,
    Noteworthy,
    OwnCopy,
    Received,
)
from retrier.domain.folding import candidate_ids, fold
from retrier.domain.receipt import Before, Receipt
from retrier.store import (
    attempts,
    claims,
    event_log,
    failed_imports,
    failures,
    groups,
    ledger,
    stamped,
)
from retrier.store.database import Database
from retrier.store.event_log import Event
from retrier.store.patience import Meanwhile


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What one received batch came to.

    `counts` is what it added to the ledger, by entry. `confirmed` messages became resolved;
    `failed_again` came back from a retry. `noteworthy` is what somebody should look at.
    """

    receipt: Receipt
    counts: Mapping[str, int]
    confirmed: int
    failed_again: int
    noteworthy: Sequence[Noteworthy] = ()


def record_received(
    db: Database,
    received: Sequence[Received],
    *,
    instance: str,
    meanwhile: Meanwhile | None = None,
) -> Recorded:
    """Store failures, confirmations, failed imports and the ledger's counts.

    `meanwhile` is called, piece by piece, while the database is at work.

    Replaying a batch after a crash stores nothing twice: redelivered attempts are recognised by
    their fingerprint. Raises DatabaseUnavailable, or DataRefused when a row's data is at fault.
    """
    return db.transact(partial(_record, db, received, instance, meanwhile))


def _record(
    db: Database,
    received: Sequence[Received],
    instance: str,
    meanwhile: Meanwhile | None,
    conn: Connection,
) -> Recorded:
    with db.sql.using_waits(conn, meanwhile):
        return _write(db, received, instance, conn)


def _write(db: Database, received: Sequence[Received], instance: str, conn: Connection) -> Recorded:
    told = stamped.tell_apart(db, conn, received)
    failed = [item for item in told if isinstance(item, Failure)]
    confirmed = [item for item in told if isinstance(item, Confirmation)]
    copies = [item for item in told if isinstance(item, OwnCopy)]
    imports = [item for item in told if isinstance(item, FailedImport)]

    db.sql.go_by_index(conn)
    db.sql.share_cut_off(conn)
    receipt = fold(failed, confirmed, _before(db, conn, failed, confirmed), lambda: str(uuid4()))
    came_back = _apply(db, conn, receipt)
    imports += receipt.imports
    imported = failed_imports.insert(db, conn, imports)
    if events := _events(copies, imported):
        event_log.append(conn, db.sql.now(conn), events)
    counts = {
        "taken_off": len(received),
        "new": receipt.new,
        "repeated": receipt.repeated,
        "redelivered": receipt.redelivered + len(imports) - len(imported),
        "confirmations": receipt.confirmations,
        "own_copies": len(copies),
        "failed_imports": len(imported),
    }
    ledger.count(db, conn, instance, counts)
    resolved = {item.unique_message_id for item in receipt.changes if item.confirmation}
    return Recorded(
        receipt=receipt,
        counts=counts,
        confirmed=len(resolved),
        failed_again=len(came_back - resolved),
        noteworthy=(*imports, *copies),
    )


def _before(
    db: Database, conn: Connection, failed: Iterable[Failure], confirmed: Iterable[Confirmation]
) -> Before:
    # A confirmation that confirms nothing may turn out to be a failure.
    perhaps = [item.if_idle for item in confirmed if isinstance(item.if_idle, Failure)]
    failed = [*failed, *perhaps]
    ids = {unique_id for failure in failed for unique_id in candidate_ids(failure)}
    ids |= {confirmation.unique_message_id for confirmation in confirmed}
    stored = failures.lock(db, conn, sorted(ids))
    redelivered = [failure.fingerprint for failure in failed if failure.redelivered]
    return Before(stored=stored, seen=attempts.seen(db, conn, redelivered))


def _apply(db: Database, conn: Connection, receipt: Receipt) -> frozenset[str]:
    """Write all of it; return the messages whose retry has its outcome now."""
    attempts.insert_bodies(db, conn, receipt.attempts)
    failures.apply(db, conn, receipt.changes)
    attempts.insert(db, conn, receipt.attempts)
    groups.replace(db, conn, receipt.changes)
    ended = [change.unique_message_id for change in receipt.changes if change.claim_ends]
    return claims.end_with_outcome(db, conn, ended)


def _events(copies: Iterable[OwnCopy], imports: Iterable[FailedImport]) -> list[Event]:
    events = [_event_of(copy) for copy in copies]
    events += [
        Event(kind="failed_import", text=f"{item.error_queue}: {item.reason}") for item in imports
    ]
    return events


def _event_of(copy: OwnCopy) -> Event:
    if copy.of_another is None:
        return Event(
            kind="own_copy_came_back",
            text=(
                f"A copy of ours arrived on the error queue {copy.error_queue}: most likely a "
                "dead-letter or expiry policy applies to the staging queue. It was dropped."
            ),
            unique_message_id=copy.unique_message_id,
        )
    return Event(
        kind="copy_of_another_came",
        text=(
            f"A copy of the Retrier installation {copy.of_another} arrived on the error queue "
            f"{copy.error_queue}: most likely a dead-letter or expiry policy applies to its "
            "staging queue. It was dropped."
        ),
        details={"installation_id": copy.of_another},
    )
