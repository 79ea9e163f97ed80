"""What is stored about the messages that a received batch may be about, read under their locks."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from retrier.domain.decision import Judgement
from retrier.domain.failed_message import (
    Confirmation,
    FailedMessageStatus,
    Failure,
    LastWord,
    Resolution,
)
from retrier.domain.folding import candidate_ids, ids_apart, named_ids
from retrier.domain.receipt import Before, Known, StoredAttempt, StoredMessage
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.tables import (
    claims,
    ended_retries,
    message_locks,
    message_redirects,
    processing_attempts,
    retry_operations,
)
from retrier.store.tables.ended_retries import Ended
from retrier.store.tables.processing_attempts import StoredBody, decision_of


def look_before(
    tx: Transaction, failed: Iterable[Failure], confirmed: Iterable[Confirmation]
) -> Before:
    """Lock the messages that the batch may be about, and return what is stored about them.

    Lock order: first the messages by number, then their claims by number.
    """
    # A confirmation that confirms nothing may be judged as a failure (decision 0020).
    perhaps = [item.if_idle for item in confirmed if isinstance(item.if_idle, Failure)]
    failed = [*failed, *perhaps]
    nameless = {each.fingerprint: each.error_queue for each in failed if each.message_id is None}
    return Before(
        stored={each.unique_message_id: each for each in _find_stored(tx, failed, confirmed)},
        seen=processing_attempts.seen(
            tx, [failure.fingerprint for failure in failed if failure.redelivered]
        ),
        elsewhere=processing_attempts.find_elsewhere(tx, nameless),
        namesakes=processing_attempts.find_namesakes(tx, [*filter(_has_node, failed)]),
    )


def _has_node(failure: Failure) -> bool:
    """Say whether it may have been stored under the name of a node. A retry says whose it is."""
    return failure.details.node is not None and failure.retry_id is None


def _find_stored(
    tx: Transaction, failed: Sequence[Failure], confirmed: Iterable[Confirmation]
) -> Iterable[StoredMessage]:
    rows = message_locks.lock_by_id(tx, _candidates(tx, failed, confirmed))
    if not rows:
        return []
    held = {claim.number: claim for claim in claims.lock(tx, [row.number for row in rows])}
    bodies = processing_attempts.find_bodies(tx, [row.attempt_id for row in rows])
    newest = processing_attempts.find_stored(tx, [row.attempt_id for row in rows])
    often = [row.number for row in rows if row.attempts > 1]
    first = processing_attempts.find_first(tx, often)
    stored = [
        _stored(
            row,
            held.get(row.number),
            bodies.get(row.attempt_id),
            newest.get(row.attempt_id, _DELETED),
            first.get(row.number),
        )
        for row in rows
    ]
    sent = _with_dropped(tx, stored, list(held.values()))
    return _with_bodies(tx, _with_ended(tx, sent, failed), failed)


_DELETED = StoredAttempt(
    raw=b"", queue="", destination="", endpoint=None, message_type=None, retry_id=None
)
"""An attempt that somebody deleted: it is like no failure, as its properties cannot be read."""


def _candidates(
    tx: Transaction, failed: Sequence[Failure], confirmed: Iterable[Confirmation]
) -> list[str]:
    """Return every unique id under which one of them may be stored.

    An id is computed with the content only if another message, stored or in this batch, has the id
    without it. Only then is it looked up: nearly all failures are spared that.
    """
    ids = {unique_id for failure in failed for unique_id in named_ids(failure)}
    ids |= {confirmation.unique_message_id for confirmation in confirmed}
    found = message_locks.find_existing(tx, sorted(ids))
    often = Counter(unique_id for failure in failed for unique_id in set(named_ids(failure)))
    taken = [
        each for each in failed if each.computed_id in found or often[each.computed_id or ""] > 1
    ]
    return sorted({*found, *(each for failure in taken for each in ids_apart(failure))})


def _stored(
    row: StoredRow,
    claim: StoredRow | None,
    body: StoredBody | None,
    newest: StoredAttempt,
    first: StoredAttempt | None,
) -> StoredMessage:
    """Return what is stored of a message; a deleted body has the hash "", equal to no other."""
    resolution = Resolution(row.resolution) if row.resolution else None
    confirmed = resolution is Resolution.CONFIRMED
    return StoredMessage(
        unique_message_id=row.unique_message_id,
        number=row.number,
        body_of=body.held_by if body else None,
        message_id=row.message_id,
        maybe_copy_of=row.maybe_copy_of,
        body_hash=body.body_hash if body else "",
        last_retry_id=row.last_retry_id,
        failure_count=row.failure_count,
        decided=Judgement(reason=row.reason or "", decision=decision_of(row)),
        known=Known(
            status=FailedMessageStatus(row.status),
            claim=_claim_in_force(row, claim),
            last_failure=row.last_failure if row.last_failure_known else None,
            resolution=resolution,
            confirmed_at=row.resolved_at if confirmed else None,
            word=LastWord(row.last_word) if row.last_word else None,
        ),
        first=first or newest,
        newest=newest,
    )


def _with_dropped(
    tx: Transaction, stored: Sequence[StoredMessage], held: Sequence[StoredRow]
) -> Sequence[StoredMessage]:
    """Add which headers the retries of these claims went without."""
    of_operations = retry_operations.find_dropped(tx, {each.operation_id for each in held})
    if not of_operations:
        return stored
    by_retry = {
        each.number: {each.retry_id: of_operations[each.operation_id]}
        for each in held
        if each.operation_id in of_operations
    }
    return [replace(each, dropped=by_retry.get(each.number, {})) for each in stored]


def _with_ended(
    tx: Transaction, stored: Sequence[StoredMessage], failed: Iterable[Failure]
) -> Sequence[StoredMessage]:
    """Add what became of the retries that failures name, where these are no claims in force.

    Nearly all failures name no retry, or that of the claim: then nothing is looked up.
    """
    by_id = {each.unique_message_id: each for each in stored}
    named: dict[int, set[str]] = {}
    for failure in failed:
        if failure.retry_id is None:
            continue
        for each in (by_id[key] for key in candidate_ids(failure) if key in by_id):
            if each.known.claim != failure.retry_id and each.number is not None:
                named.setdefault(each.number, set()).add(failure.retry_id)
    if not named:
        return stored
    ended = ended_retries.find_ended(tx, named)
    outcomes = processing_attempts.find_outcomes(tx, named)
    redirected = message_redirects.read(tx)
    return [
        replace(
            each,
            issued=frozenset(ended.get(each.number or 0, ())),
            counted=_counted(ended.get(each.number or 0, {})),
            outcomes=outcomes.get(each.number or 0, {}),
            dropped={**each.dropped, **_dropped(ended.get(each.number or 0, {}))},
            sent_to=_sent_to(each, ended.get(each.number or 0, {}).values(), redirected),
        )
        for each in stored
    ]


def _counted(ended: Mapping[str, Ended]) -> frozenset[str]:
    return frozenset(key for key, how in ended.items() if how.outcome in ended_retries.COUNTED)


def _dropped(ended: Mapping[str, Ended]) -> Mapping[str, Sequence[str]]:
    return {key: how.drop_headers for key, how in ended.items() if how.drop_headers}


def _sent_to(
    stored: StoredMessage, ended: Iterable[Ended], redirected: Mapping[str, str]
) -> frozenset[str]:
    """Return where its retries may have gone: named, redirected, or as its failures say."""
    own = {stored.first.destination, stored.newest.destination}
    named = {each.destination for each in ended if each.destination is not None}
    return frozenset(own | named | {redirected[each] for each in own if each in redirected})


def _with_bodies(
    tx: Transaction, stored: Sequence[StoredMessage], failed: Iterable[Failure]
) -> Iterable[StoredMessage]:
    """Add the bodies of those messages of which a failure may be that has another body.

    Only a failure that names a retry and may come from a library that changes bodies: few.
    """
    by_id = {each.unique_message_id: each for each in stored}
    wanted = {
        each.body_of
        for failure in failed
        if failure.retry_id is not None
        for each in (by_id[key] for key in named_ids(failure) if key in by_id)
        if each.body_hash != failure.body_hash and each.body_of is not None
    }
    bodies = processing_attempts.read_bodies(tx, sorted(wanted))
    return [replace(each, body=bodies.get(each.body_of or 0)) for each in stored]


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
