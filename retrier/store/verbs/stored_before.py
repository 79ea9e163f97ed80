"""What is stored about the messages that a received batch may be about, read under their locks."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from retrier.domain.failed_message import (
    Confirmation,
    Disposition,
    FailedMessageStatus,
    Failure,
    Resolution,
)
from retrier.domain.folding import candidate_ids, id_with_body, named_ids
from retrier.domain.new_failure import Known
from retrier.domain.receipt import Before, StoredMessage
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.tables import claims, ended_retries, message_locks, processing_attempts
from retrier.store.tables.processing_attempts import StoredBody


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
    stored = [_stored(row, held.get(row.number), bodies.get(row.attempt_id)) for row in rows]
    redelivered = [failure.fingerprint for failure in failed if failure.redelivered]
    return Before(
        stored={each.unique_message_id: each for each in _with_counted(tx, stored, failed)},
        seen=processing_attempts.seen(tx, redelivered),
    )


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
        failure_count=row.failure_count,
        is_dead=row.disposition == Disposition.DEAD,
        known=Known(
            status=FailedMessageStatus(row.status),
            claim=_claim_in_force(row, claim),
            last_failure=row.last_failure if row.last_failure_known else None,
            resolution=resolution,
            confirmed_at=row.resolved_at if confirmed else None,
        ),
    )


def _with_counted(
    tx: Transaction, stored: Sequence[StoredMessage], failed: Iterable[Failure]
) -> Iterable[StoredMessage]:
    """Add which retries a message counts already, where a failure names one that is no claim.

    Nearly all failures name no retry, or that of the claim: then nothing is looked up.
    """
    claimed = {each.unique_message_id: each.known.claim for each in stored}
    named: dict[str, set[str]] = {}
    for failure in failed:
        if failure.retry_id is None:
            continue
        for key in candidate_ids(failure):
            if key in claimed and claimed[key] != failure.retry_id:
                named.setdefault(key, set()).add(failure.retry_id)
    if not named:
        return stored
    numbers = {each.unique_message_id: each.number for each in stored if each.number is not None}
    found = ended_retries.find_counted(tx, {numbers[key]: ids for key, ids in named.items()})
    counted = {key: frozenset(found.get(numbers[key], ())) for key in named}
    return [
        replace(each, counted=counted.get(each.unique_message_id, each.counted)) for each in stored
    ]


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
