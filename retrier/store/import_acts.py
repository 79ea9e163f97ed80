"""What people do with failed imports: read again with the settings of today, sent, deleted."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import assert_never
from uuid import uuid4

from retrier.domain.failed_imports import (
    Became,
    Doubtful,
    ImportRefusal,
    NotTaken,
    NotTried,
    ReadAgain,
    Reimport,
    Send,
    SendOutcome,
    Sent,
    find_twins,
    why_not_delete,
    why_not_read_again,
    why_not_send,
)
from retrier.domain.failed_message import Confirmation, FailedImport, Failure, OwnCopy, Received
from retrier.domain.folding import candidate_ids, fold
from retrier.domain.values import dataclass
from retrier.store import attempts, event_log, figures, imports
from retrier.store.engine.database import writing
from retrier.store.engine.transaction import Transaction
from retrier.store.event_log import Entry
from retrier.store.recording import Reception, apply, classify_received, describe_copy, look_before

ReadImport = Callable[[FailedImport], Received]
"""Returns what an import turns out to be today."""

_WORDS: Mapping[Became, str] = {
    Became.FAILED_MESSAGE: "it is a failed message now",
    Became.STORED_BEFORE: "it equals a failure of a message that is stored already",
    Became.CONFIRMATION: "it is a confirmation",
    Became.OWN_COPY: "it is a copy out of a staging queue, and was dropped",
}


@writing
def read_again(
    tx: Transaction,
    import_ids: Sequence[str],
    read: ReadImport,
    *,
    into: Reception,
    who: str,
) -> ReadAgain:
    """Read these imports again; store what they turn out to be, and delete those imports.

    One transaction: each is either still an import, with the reason of today, or counted as what
    it became and as `reimported`. Raises DatabaseUnavailable, or DataRefused when the data of one
    of them is at fault.
    """
    tx.sql.force_index_order(tx.conn)
    # Before any row, as ingestion does it.
    tx.sql.share_cut_off(tx.conn)
    found = imports.lock(tx, import_ids)
    refused = _refuse(tx, import_ids, found)
    ready = {key: kept for key, kept in found.items() if key not in refused}
    told = _store(tx, ready, read, into)
    reasons = {key: why for key in ready if (why := told.why_kept(key)) is not None}
    became = {key: told.became(key) for key in ready if key not in reasons}
    imports.note_reasons(tx, reasons)
    imports.remove(tx, sorted(became))
    figures.count_deliveries(tx, into.instance, _count(told, became))
    event_log.append(tx, list(_describe(told, ready, became, reasons, who)))
    ids = (told.message_of(key) for key in became)
    return ReadAgain(
        became=Counter(became.values()),
        kept=Counter(reasons.values()),
        refused=Counter(refused.values()),
        message_ids=tuple(dict.fromkeys(each for each in ids if each is not None)),
    )


@writing
def keep_refused(tx: Transaction, import_id: str, reason: str, *, who: str) -> ReadAgain:
    """Note that the database refuses what an import would become. Raises DatabaseUnavailable."""
    found = imports.lock(tx, [import_id])
    if not found:
        return ReadAgain.refusing(ImportRefusal.UNKNOWN)
    imports.note_reasons(tx, {import_id: reason})
    event_log.append(tx, [_describe_kept(reason, 1, who)])
    return ReadAgain(kept=Counter([reason]))


@writing
def delete_import(tx: Transaction, import_id: str, *, who: str) -> ImportRefusal | None:
    """Delete an import, with its stamp if it has one; None, or why it may not be.

    Raises DatabaseUnavailable.
    """
    kept = imports.lock(tx, [import_id]).get(import_id)
    if kept is None:
        return ImportRefusal.UNKNOWN
    send = imports.find_stamps(tx, [import_id]).get(import_id)
    refusal = why_not_delete(send, tx.now)
    if refusal is not None:
        return refusal
    if send is not None:
        imports.remove_stamp(tx, import_id, send.send_id)
    imports.remove(tx, [import_id])
    doubt = "" if send is None else f"; it may have been sent to {send.to} before"
    text = f"The failed import {import_id} from {kept.error_queue} was deleted{doubt}."
    details: dict[str, object] = {"import_id": import_id, "reason": kept.reason}
    event_log.append(tx, [Entry(kind="import_deleted", text=text, who=who, details=details)])
    return None


def _refuse(
    tx: Transaction, import_ids: Sequence[str], found: Mapping[str, FailedImport]
) -> Mapping[str, ImportRefusal]:
    sends = imports.find_stamps(tx, sorted(found))
    reasons = {key: why_not_read_again(sends.get(key), tx.now) for key in found}
    missing = {key: ImportRefusal.UNKNOWN for key in import_ids if key not in found}
    return missing | {key: why for key, why in reasons.items() if why is not None}


def _store(
    tx: Transaction,
    ready: Mapping[str, FailedImport],
    read: ReadImport,
    into: Reception,
) -> Reimport:
    told = classify_received(tx, [read(kept) for kept in ready.values()])
    items = dict(zip(ready, told, strict=True))
    failures = {key: item for key, item in items.items() if isinstance(item, Failure)}
    equal, twins = _find_equal(tx, failures), find_twins(failures)
    stored = equal.keys() | twins.keys()
    fresh = _mark_copies(tx, {key: each for key, each in failures.items() if key not in stored})
    items |= fresh
    confirmed = [item for item in items.values() if isinstance(item, Confirmation)]
    before = look_before(tx, fresh.values(), confirmed)
    receipt = fold(fresh.values(), confirmed, before, lambda: str(uuid4()))
    apply(tx, receipt, before, into)
    return Reimport(items=items, equal=equal, twins=twins, receipt=receipt)


def _find_equal(tx: Transaction, failures: Mapping[str, Failure]) -> Mapping[str, str]:
    """Return the messages of those failures that are stored byte for byte, by import.

    Only where ids say that it is the same message: between commit and acknowledgement of one a
    process may die, so that the broker hands it out again, and the settings may change.
    """
    seen = attempts.seen(tx, [each.fingerprint for each in failures.values()])
    same = {
        key: seen.get(each.fingerprint, frozenset()) & frozenset(candidate_ids(each))
        for key, each in failures.items()
    }
    return {key: min(ids) for key, ids in same.items() if ids}


def _mark_copies(tx: Transaction, failures: Mapping[str, Failure]) -> dict[str, Failure]:
    """Mark failures without a message id that may be stored already.

    They are kept, and say what they may be a copy of: others may merely have equal bytes.
    """
    nameless = [each.fingerprint for each in failures.values() if each.message_id is None]
    handed_out_again = attempts.find_redelivered(tx, nameless)
    return {
        key: replace(each, redelivered=True)
        if each.message_id is None and each.fingerprint in handed_out_again
        else each
        for key, each in failures.items()
    }


def _count(told: Reimport, became: Mapping[str, Became]) -> Mapping[str, int]:
    receipt = told.receipt
    return {
        "reimported": len(became),
        "new": receipt.new,
        "repeated": receipt.repeated,
        "redelivered": receipt.redelivered + len(told.equal.keys() | told.twins.keys()),
        "confirmations": receipt.confirmations,
        "own_copies": sum(each is Became.OWN_COPY for each in became.values()),
    }


def _describe(
    told: Reimport,
    ready: Mapping[str, FailedImport],
    became: Mapping[str, Became],
    reasons: Mapping[str, str],
    who: str,
) -> Iterator[Entry]:
    for key, what in became.items():
        yield Entry(
            kind="import_read_again",
            text=f"The failed import {key} from {ready[key].error_queue} was read again: {_WORDS[what]}.",
            who=who,
            unique_message_id=told.message_of(key),
            details={"import_id": key, "became": what},
        )
    yield from (describe_copy(each) for each in told.items.values() if isinstance(each, OwnCopy))
    for reason, number in sorted(Counter(reasons.values()).items()):
        yield _describe_kept(reason, number, who)


def _describe_kept(reason: str, number: int, who: str) -> Entry:
    text = f"Read again and still kept as failed imports: {number}, because {reason}"
    return Entry(kind="import_kept", text=text, who=who)


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
    kept = imports.lock(tx, [import_id]).get(import_id)
    if kept is None:
        return ImportRefusal.UNKNOWN
    before = imports.find_stamps(tx, [import_id]).get(import_id)
    refusal = why_not_send(before, tx.now, again=again)
    if refusal is not None:
        return refusal
    send = Send(send_id=str(uuid4()), to=to, since=tx.now, requested_by=who)
    if before is None:
        imports.stamp(tx, import_id, send)
    else:
        imports.replace_stamp(tx, import_id, before.send_id, send)
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
    imports.lock_row(tx, stamped.import_id)
    to = stamped.send.to
    match outcome:
        case Sent():
            if imports.remove_stamp(tx, stamped.import_id, stamped.send.send_id):
                imports.remove(tx, [stamped.import_id])
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
        imports.remove_stamp(tx, stamped.import_id, stamped.send.send_id)
    else:
        imports.replace_stamp(tx, stamped.import_id, stamped.send.send_id, stamped.before)


def _note(tx: Transaction, stamped: StampedImport, kind: str, words: str) -> None:
    text = f"The failed import {stamped.import_id} from {stamped.error_queue} {words}"
    details: dict[str, object] = {"import_id": stamped.import_id, "queue": stamped.send.to}
    entry = Entry(kind=kind, text=text, who=stamped.send.requested_by, details=details)
    event_log.append(tx, [entry])
