"""Recording a batch received from an error queue, in one transaction."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from uuid import uuid4

from retrier.domain.failed_message import (
    Confirmation,
    FailedImport,
    Failure,
    Judged,
    OwnCopy,
    Received,
    Stamped,
)
from retrier.domain.folding import fold
from retrier.domain.identity import is_guid
from retrier.domain.receipt import Receipt, Recorded
from retrier.overlap import WhileInFlight, is_sure, nothing_else
from retrier.policy.policy_set import WAITING, Judge
from retrier.store.engine.database import writing
from retrier.store.engine.transaction import Transaction
from retrier.store.tables import event_log, failed_imports, installation, ledger, staging_ids
from retrier.store.tables.event_log import Entry
from retrier.store.verbs.receiving import Reception, apply
from retrier.store.verbs.stored_before import look_before


def tell_apart(tx: Transaction, received: Sequence[Received]) -> Sequence[Judged | OwnCopy]:
    """Decide what each message is (decision 0020); without any stamps no query is needed."""
    stamped = [item for item in received if isinstance(item, Stamped)]
    if not stamped:
        return [item for item in received if not isinstance(item, Stamped)]
    ours = installation.find(tx)
    known = staging_ids.find_known(tx, [s.staging_id for s in stamped if is_guid(s.staging_id)])
    return [
        _judge(item, ours, known=item.staging_id in known) if isinstance(item, Stamped) else item
        for item in received
    ]


def _judge(stamped: Stamped, ours: str | None, *, known: bool) -> Judged | OwnCopy:
    if stamped.installation_id != ours:
        return stamped.if_anothers
    return stamped.if_ours if known else stamped.if_unknown


@writing
def record_received(
    tx: Transaction,
    received: Sequence[Received],
    *,
    instance: str,
    forward_to: str | None = None,
    judge: Judge = WAITING,
    while_in_flight: WhileInFlight = nothing_else,
    make_sure: Callable[[], None] = is_sure,
) -> Recorded:
    """Store failures, confirmations, failed imports and the ledger's counts.

    With `forward_to` each failure that is stored is also to be sent to that queue. `judge` decides
    what happens next to each message that becomes unresolved; by default a person does.
    `while_in_flight` is called again and again while the database works. `make_sure` is called when
    all locks are held; if it raises, nothing is stored.

    A batch that comes again after a crash is not stored twice: redelivered attempts are recognised
    by their fingerprint. Raises DatabaseUnavailable, or DataRefused when a row's data is at fault.
    """
    with tx.sql.using_waits(tx.conn, while_in_flight):
        into = Reception(instance=instance, forward_to=forward_to, judge=judge)
        return _record(tx, received, into, make_sure)


def _record(
    tx: Transaction,
    received: Sequence[Received],
    into: Reception,
    make_sure: Callable[[], None],
) -> Recorded:
    judged = tell_apart(tx, received)
    confirmed = [item for item in judged if isinstance(item, Confirmation)]
    copies = [item for item in judged if isinstance(item, OwnCopy)]
    refused = [item for item in judged if isinstance(item, FailedImport)]
    failed = _without_imported(tx, [item for item in judged if isinstance(item, Failure)])
    again = len(judged) - len(failed) - len(confirmed) - len(copies) - len(refused)

    # A dead-letter exchange copies a message to two error queues at one moment: whoever stores the
    # second copy has to wait until the first can be seen, or neither says that it may be a copy.
    nameless = {each.fingerprint for each in failed if each.message_id is None}
    if nameless:
        tx.sql.reserve_bytes(tx.conn, nameless)
    tx.sql.share_cut_off(tx.conn, by_index=True)
    before = look_before(tx, failed, confirmed)
    # Not before: while we waited for a lock, the broker may have given us up. Who got the messages
    # after that has stored them, and nothing in our copies says that these are the same. From here
    # on a process that stops loses its session before the broker gives it up.
    make_sure()
    receipt = fold(failed, confirmed, before, lambda: str(uuid4()))
    applied = apply(tx, receipt, before, into)
    refused += receipt.imports
    imported = failed_imports.add(tx, refused)
    event_log.append(tx, _events(copies, imported))
    counts = _count(receipt, len(received), len(copies), again + len(refused), len(imported))
    ledger.count(tx, into.instance, counts)
    resolved = {item.unique_message_id for item in receipt.changes if item.confirmation}
    return Recorded(
        receipt=receipt,
        counts=counts,
        confirmed=len(resolved),
        failed_again=len(applied.came_back - resolved),
        noteworthy=(*refused, *copies),
        reasons=applied.reasons,
        decided=applied.decided,
    )


def _without_imported(tx: Transaction, failed: Sequence[Failure]) -> Sequence[Failure]:
    """Leave out redeliveries of what is kept as a failed import: it has a way out as that.

    Between commit and acknowledgement of one the process died, and the settings were changed: it
    is understood now, and would be there twice. One without a message id is kept all the same: it
    may be another that merely has equal bytes.
    """
    again = [each.fingerprint for each in failed if each.redelivered and each.message_id]
    known = failed_imports.find_known(tx, again)
    if not known:
        return failed
    return [
        each
        for each in failed
        if not (each.redelivered and each.message_id and each.fingerprint in known)
    ]


def _count(
    receipt: Receipt, received: int, copies: int, again: int, imported: int
) -> Mapping[str, int]:
    return {
        "taken_off": received,
        "new": receipt.new,
        "repeated": receipt.repeated,
        "redelivered": receipt.redelivered + again - imported,
        "confirmations": receipt.confirmations,
        "own_copies": copies,
        "failed_imports": imported,
    }


def _events(copies: Iterable[OwnCopy], refused: Iterable[FailedImport]) -> list[Entry]:
    events = [describe_copy(copy) for copy in copies]
    events += [
        Entry(kind="failed_import", text=f"{item.error_queue}: {item.reason}") for item in refused
    ]
    return events


def describe_copy(copy: OwnCopy) -> Entry:
    """Return the event of a copy that came to an error queue."""
    if copy.of_another is None:
        return Entry(
            kind="own_copy_came_back",
            text=(
                f"A copy of ours arrived on the error queue {copy.error_queue}: most likely a "
                "dead-letter or expiry policy applies to the staging queue. It was dropped."
            ),
            unique_message_id=copy.unique_message_id,
        )
    return Entry(
        kind="copy_of_another_came",
        text=(
            f"A copy of the Retrier installation {copy.of_another} arrived on the error queue "
            f"{copy.error_queue}: most likely a dead-letter or expiry policy applies to its "
            "staging queue. It was dropped."
        ),
        details={"installation_id": copy.of_another},
    )
