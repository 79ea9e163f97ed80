"""Reading what is stored about a received batch, and writing what the batch changes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from retrier.domain.decision import Manual
from retrier.domain.failed_message import (
    Confirmation,
    FailedMessageStatus,
    Failure,
    Move,
    Resolution,
    RetryEnd,
)
from retrier.domain.folding import id_with_body, named_ids
from retrier.domain.new_failure import Known
from retrier.domain.receipt import Before, MessageChange, Receipt, StoredMessage
from retrier.store.engine import sql_dialect
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.tables import (
    causes,
    claims,
    failed_messages,
    message_locks,
    outgoing,
    processing_attempts,
    retry_operations,
)
from retrier.store.tables.processing_attempts import BodyHolders, Newest, StoredBody
from retrier.store.verbs.retry_ends import end_claims

Numbers = Mapping[str, int]
"""The numbers of messages by their unique ids."""


def look_before(
    tx: Transaction, failed: Iterable[Failure], confirmed: Iterable[Confirmation]
) -> Before:
    """Lock the messages that the batch may be about, and return what is stored about them.

    Lock order: first the messages by number, then their claims by number.
    """
    # A confirmation that confirms nothing may be judged as a failure (decision 0020).
    perhaps = [item.if_idle for item in confirmed if isinstance(item.if_idle, Failure)]
    failed = [*failed, *perhaps]
    rows = message_locks.lock_by_id(tx, _candidates(tx, failed, confirmed))
    numbers = [row.number for row in rows]
    held = {claim.number: claim for claim in claims.lock(tx, numbers)}
    bodies = processing_attempts.find_bodies(tx, [row.attempt_id for row in rows])
    stored = (_stored(row, held.get(row.number), bodies.get(row.attempt_id)) for row in rows)
    redelivered = [failure.fingerprint for failure in failed if failure.redelivered]
    return Before(
        stored={each.unique_message_id: each for each in stored},
        seen=processing_attempts.seen(tx, redelivered),
    )


def apply(
    tx: Transaction, receipt: Receipt, before: Before, forward_to: str | None
) -> frozenset[str]:
    """Write all of it; return the ids of the messages whose retry has its outcome now.

    With `forward_to` every attempt that is stored is also to be sent to that queue.
    """
    new = [change for change in receipt.changes if change.is_new]
    fresh = tx.sql.take_numbers(tx.conn, sql_dialect.Counter.MESSAGE, len(new)) if new else []
    # In the order of arrival: streams are to be ordered by number.
    numbers = {
        **{key: each.number for key, each in before.stored.items() if each.number is not None},
        **dict(zip((change.unique_message_id for change in new), fresh, strict=True)),
    }
    attempt_ids = processing_attempts.take_ids(tx, len(receipt.attempts))
    cause_ids = causes.identify(tx, (each.failure.cause for each in receipt.attempts))
    ids = dict(zip(map(id, receipt.attempts), attempt_ids, strict=True))
    newest = {
        numbers[change.unique_message_id]: Newest(
            change=change,
            attempt=change.details,
            attempt_id=ids[id(change.details)],
            cause_id=cause_ids[change.details.failure.cause.fingerprint],
        )
        for change in receipt.changes
        if change.details is not None
    }
    _write_messages(tx, receipt, numbers, newest)
    processing_attempts.add(tx, attempt_ids, receipt.attempts, numbers, cause_ids, _holders(before))
    if forward_to is not None:
        outgoing.add(tx, forward_to, attempt_ids, receipt.attempts, numbers)
    return _end_retries(tx, receipt.changes, numbers)


def _candidates(
    tx: Transaction, failed: Sequence[Failure], confirmed: Iterable[Confirmation]
) -> list[str]:
    """Return every unique id under which one of them may be stored.

    An id is computed with the body only if another message, stored or in this batch, has the id
    without it. Only then is it looked up: nearly all failures are spared that.
    """
    ids = {unique_id for failure in failed for unique_id in named_ids(failure)}
    ids |= {confirmation.unique_message_id for confirmation in confirmed}
    found = message_locks.find_existing(tx, sorted(ids))
    often = Counter(unique_id for failure in failed for unique_id in set(named_ids(failure)))
    taken = [
        each for each in failed if each.computed_id in found or often[each.computed_id or ""] > 1
    ]
    others = {id_with_body(failure) for failure in taken}
    return sorted({*found, *(each for each in others if each is not None)})


def _write_messages(
    tx: Transaction, receipt: Receipt, numbers: Numbers, newest: Mapping[int, Newest]
) -> None:
    changes = {numbers[change.unique_message_id]: change for change in receipt.changes}
    added = {n: each for n, each in newest.items() if each.change.is_new}
    again = {n: each for n, each in newest.items() if not each.change.is_new}
    failed_messages.add(tx, list(added), list(added.values()))
    failed_messages.become_unresolved(tx, Move.FAILED, {n: Manual() for n in again}, again)
    failed_messages.count_attempts(
        tx, {n: c for n, c in changes.items() if c.details is None and c.attempts_added}
    )
    failed_messages.confirm(tx, {n: c for n, c in changes.items() if c.confirmation is not None})


def _end_retries(
    tx: Transaction, changes: Iterable[MessageChange], numbers: Numbers
) -> frozenset[str]:
    """End the claims of messages whose outcome arrived: failed again, or confirmed.

    Returns the ids of those whose retry was stamped. One that was stamped but not recorded has
    evidently been forwarded, so it is counted as forwarded here: recording it later will find no
    claim and count nothing.
    """
    ending = {numbers[c.unique_message_id]: c for c in changes if c.claim_ends}
    by_word = [n for n, change in ending.items() if change.confirmation is not None]
    by_failure = [n for n, change in ending.items() if change.confirmation is None]
    ended = [
        *end_claims(tx, sorted(by_word), RetryEnd.CONFIRMED),
        *end_claims(tx, sorted(by_failure), RetryEnd.FAILED),
    ]
    sent = [claim for claim in ended if claim.sending_since]
    unrecorded = (claim.operation_id for claim in sent if not claim.forwarded_at)
    retry_operations.count_forwarded(tx, unrecorded)
    return frozenset(ending[claim.number].unique_message_id for claim in sent)


def _holders(before: Before) -> BodyHolders:
    return {
        (each.number, each.body_hash): each.body_of
        for each in before.stored.values()
        if each.number is not None and each.body_of is not None
    }


def _stored(row: StoredRow, claim: StoredRow | None, body: StoredBody | None) -> StoredMessage:
    """Return what is stored of a message; a deleted body has the hash "", equal to no other."""
    resolution = Resolution(row.resolution) if row.resolution else None
    confirmed = resolution is Resolution.CONFIRMED
    return StoredMessage(
        unique_message_id=row.unique_message_id,
        number=row.number,
        body_of=body.held_by if body else None,
        message_id=row.message_id,
        body_hash=body.body_hash if body else "",
        last_retry_id=row.last_retry_id,
        known=Known(
            status=FailedMessageStatus(row.status),
            claim=_claim_in_force(row, claim),
            last_failure=row.last_failure if row.last_failure_known else None,
            resolution=resolution,
            confirmed_at=row.resolved_at if confirmed else None,
        ),
    )


def _claim_in_force(row: StoredRow, claim: StoredRow | None) -> str | None:
    """Return the retry id of the claim if the claim holds, else None (decision 0027).

    Marking locks no message: a claim may be taken while the message fails again or is archived.
    Such a claim does not hold, and Staging drops it.
    """
    if claim is None:
        return None
    unresolved = row.status == FailedMessageStatus.UNRESOLVED
    holds = (
        claim.failure_seq == row.failure_seq if unresolved else row.last_retry_id == claim.retry_id
    )
    return str(claim.retry_id) if holds else None
