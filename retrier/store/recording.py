"""Recording a batch received from an error queue: read under locks, judged, written at once."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from uuid import uuid4

from retrier.domain.decision import Decided, Judgement
from retrier.domain.failed_message import (
    Confirmation,
    FailedImport,
    FailedMessageStatus,
    Failure,
    Judged,
    LastWord,
    OwnCopy,
    Received,
    Resolution,
    RetryEnd,
    Stamped,
)
from retrier.domain.failure_texts import searched_text
from retrier.domain.folding import candidate_ids, fold, ids_apart, named_ids
from retrier.domain.identity import is_guid
from retrier.domain.outcomes import RetryOutcome
from retrier.domain.recording import (
    Before,
    Known,
    MessageChange,
    Receipt,
    Recorded,
    StoredAttempt,
    StoredMessage,
)
from retrier.domain.values import dataclass
from retrier.overlap import WhileInFlight, is_sure, nothing_else
from retrier.policy.policy_set import WAITING, Judge, Policies
from retrier.store import (
    attempts,
    batches,
    claims,
    edits,
    event_log,
    fields,
    figures,
    groups,
    imports,
    message_texts,
    messages,
    operations,
    outgoing,
    patches,
    redirects,
    upkeep,
)
from retrier.store.attempts import (
    BodyHolders,
    NewAttempt,
    Newest,
    StoredBody,
    columns_of,
    decision_of,
)
from retrier.store.breakers import count_outcomes
from retrier.store.claims import Ended
from retrier.store.engine.database import writing
from retrier.store.engine.sql_dialect import NumberSource
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.event_log import Entry
from retrier.store.judging import (
    JudgedMessage,
    entries_of_standing,
    follow_up,
    judge_attempts,
    sum_up_waiting,
)
from retrier.store.operations import Altered
from retrier.store.retry_ends import end_claims

Numbers = Mapping[str, int]
"""The numbers of messages by their unique ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reception:
    """How failures are taken in: who counts them in the ledger, and who decides about them.

    With `forward_to` every attempt that is stored is also to be sent to that queue.
    """

    instance: str
    forward_to: str | None = None
    judge: Judge = WAITING


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What came of a batch: the ids of the messages whose retry has its outcome now.

    `reasons` counts its failures by reason; `decided` is what became of the messages.
    """

    came_back: frozenset[str]
    reasons: Mapping[str, int]
    decided: Sequence[Decided]


def classify_received(tx: Transaction, received: Sequence[Received]) -> Sequence[Judged | OwnCopy]:
    """Decide what each message is (decision 0020); without any stamps no query is needed."""
    stamped = [item for item in received if isinstance(item, Stamped)]
    if not stamped:
        return [item for item in received if not isinstance(item, Stamped)]
    ours = upkeep.find_installation_id(tx)
    known = batches.find_staging_ids(tx, [s.staging_id for s in stamped if is_guid(s.staging_id)])
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
    judged = classify_received(tx, received)
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
    imported = imports.add(tx, refused)
    event_log.append(tx, _events(copies, imported))
    counts = _count(receipt, len(received), len(copies), again + len(refused), len(imported))
    figures.count_deliveries(tx, into.instance, counts)
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
    known = imports.find_known(tx, again)
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
        seen=attempts.seen(tx, [failure.fingerprint for failure in failed if failure.redelivered]),
        elsewhere=attempts.find_elsewhere(tx, nameless),
        namesakes=attempts.find_namesakes(tx, [*filter(_has_node, failed)]),
        versions=edits.find_versions(tx, failed),
    )


def _has_node(failure: Failure) -> bool:
    """Say whether it may have been stored under the name of a node. A retry says whose it is."""
    return failure.details.node is not None and failure.retry_id is None


def _find_stored(
    tx: Transaction, failed: Sequence[Failure], confirmed: Iterable[Confirmation]
) -> Iterable[StoredMessage]:
    rows = messages.lock_by_id(tx, _candidates(tx, failed, confirmed))
    if not rows:
        return []
    held = {claim.number: claim for claim in claims.lock(tx, [row.number for row in rows])}
    bodies = attempts.find_bodies(tx, [row.attempt_id for row in rows])
    newest = attempts.find_stored(tx, [row.attempt_id for row in rows])
    often = [row.number for row in rows if row.attempts > 1]
    first = attempts.find_first(tx, often)
    edited = edits.find_retries(tx, [row.number for row in rows if row.edited])
    stored = [
        _stored(
            row,
            held.get(row.number),
            bodies.get(row.attempt_id),
            newest.get(row.attempt_id, _DELETED),
            first.get(row.number),
            edited.get(row.number, frozenset()),
        )
        for row in rows
    ]
    sent = _with_altered(tx, stored, list(held.values()))
    return patches.with_sent(tx, _with_bodies(tx, _with_ended(tx, sent, failed), failed), failed)


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
    found = messages.find_existing(tx, sorted(ids))
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
    edited_under: frozenset[str],
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
        edited_under=edited_under,
    )


def _with_altered(
    tx: Transaction, stored: Sequence[StoredMessage], held: Sequence[StoredRow]
) -> Sequence[StoredMessage]:
    """Add which headers the retries of these claims went without, and how they were patched."""
    of_operations = operations.find_altered(tx, {each.operation_id for each in held})
    if not of_operations:
        return stored
    by_number = {
        each.number: (each.retry_id, of_operations[each.operation_id])
        for each in held
        if each.operation_id in of_operations
    }
    return [_altered(each, *by_number.get(each.number or 0, ("", None))) for each in stored]


def _altered(stored: StoredMessage, retry_id: str, how: Altered | None) -> StoredMessage:
    if how is None:
        return stored
    return replace(
        stored,
        dropped={retry_id: how.drop_headers} if how.drop_headers else {},
        patches={} if how.patch is None else {retry_id: how.patch},
    )


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
    ended = claims.find_ended(tx, named)
    outcomes = attempts.find_outcomes(tx, named)
    redirected = redirects.read(tx)
    return [
        replace(
            each,
            issued=frozenset(ended.get(each.number or 0, ())),
            counted=_counted(ended.get(each.number or 0, {})),
            outcomes=outcomes.get(each.number or 0, {}),
            dropped={**each.dropped, **_dropped(ended.get(each.number or 0, {}))},
            patches={**each.patches, **_patched(ended.get(each.number or 0, {}))},
            sent_to=_sent_to(each, ended.get(each.number or 0, {}).values(), redirected),
        )
        for each in stored
    ]


def _counted(ended: Mapping[str, Ended]) -> frozenset[str]:
    return frozenset(key for key, how in ended.items() if how.outcome in claims.COUNTED_ENDS)


def _dropped(ended: Mapping[str, Ended]) -> Mapping[str, Sequence[str]]:
    return {key: how.drop_headers for key, how in ended.items() if how.drop_headers}


def _patched(ended: Mapping[str, Ended]) -> Mapping[str, str]:
    return {key: how.patch for key, how in ended.items() if how.patch is not None}


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
    bodies = attempts.read_bodies(tx, sorted(wanted))
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


def apply(tx: Transaction, receipt: Receipt, before: Before, into: Reception) -> Applied:
    """Judge the failures, and write all of it."""
    policies = into.judge.in_force()
    new = [change for change in receipt.changes if change.is_new]
    fresh = tx.sql.take_numbers(tx.conn, NumberSource.MESSAGE, len(new)) if new else []
    # In the order of arrival: streams are to be ordered by number.
    numbers = {
        **{key: each.number for key, each in before.stored.items() if each.number is not None},
        **dict(zip((change.unique_message_id for change in new), fresh, strict=True)),
    }
    stored = _take_attempts(tx, receipt, before, into.judge, policies)
    cause_ids = groups.identify_causes(tx, (each.failure.cause for each in receipt.attempts))
    shown = {id(each.attempt): each for each in stored}
    changed = [change for change in receipt.changes if change.details is not None]
    text_ids = _identify_texts(tx, [shown[id(change.details)] for change in changed])
    newest = {
        numbers[change.unique_message_id]: Newest(
            change=change,
            shown=(each := shown[id(change.details)]),
            cause_id=cause_ids[each.attempt.failure.cause.fingerprint],
            text_id=text_id,
        )
        for change, text_id in zip(changed, text_ids, strict=True)
    }
    _write_messages(tx, receipt, numbers, newest)
    _write_fields(tx, newest)
    attempts.add(tx, stored, numbers, cause_ids, _holders(before))
    if into.forward_to is not None:
        ids = [each.attempt_id for each in stored]
        outgoing.add(tx, into.forward_to, ids, receipt.attempts, numbers)
    if policies.configured:
        decided = follow_up(tx, list(_decided(newest)), policies)
    else:
        decided = sum_up_waiting(each.judgement for each in _decided(newest))
    event_log.append(tx, [*entries_of_standing(receipt.changes), *edits.tell_failed(new)])
    return Applied(
        came_back=_end_retries(tx, receipt.changes, numbers, _find_late(tx, stored, before)),
        reasons=Counter(each.judgement.failure_reason for each in stored),
        decided=decided,
    )


def _take_attempts(
    tx: Transaction, receipt: Receipt, before: Before, judge: Judge, policies: Policies
) -> list[NewAttempt]:
    """Judge the failures, and give each its id."""
    ids = attempts.take_ids(tx, len(receipt.attempts))
    judged = judge_attempts(tx, receipt.attempts, before, policies, judge.dice)
    counts = (attempt.failures for attempt in receipt.attempts)
    columns = columns_of(zip(judged, counts, strict=True))
    return list(map(NewAttempt, ids, receipt.attempts, judged, columns))


def _identify_texts(tx: Transaction, shown: Sequence[NewAttempt]) -> Sequence[int]:
    """Return the ids of the texts that these failures are found by; equal ones are made once."""
    made: dict[tuple[int, str | None, object], str] = {}
    found = []
    for each in shown:
        failure = each.attempt.failure
        message, reason = failure.details.exception_message, each.judgement.reason
        key = (id(failure.cause), message, reason)
        if key not in made:
            made[key] = searched_text(failure.details, reason)
        found.append(made[key])
    ids = message_texts.identify_texts(tx, made.values())
    return [ids[folded] for folded in found]


def _decided(newest: Mapping[int, Newest]) -> Iterator[JudgedMessage]:
    """Yield what is unresolved after this batch, and was decided about in it.

    Not what a confirmation in it has resolved, and not that of which an earlier decision stands.
    """
    for number, each in newest.items():
        if each.change.confirmation is None and not each.shown.judgement.stands:
            yield JudgedMessage(
                number=number,
                unique_message_id=each.change.unique_message_id,
                attempt_id=each.shown.attempt_id,
                judgement=each.shown.judgement,
                failures=each.shown.attempt.failures or 1,
            )


def _write_messages(
    tx: Transaction, receipt: Receipt, numbers: Numbers, newest: Mapping[int, Newest]
) -> None:
    changes = {numbers[change.unique_message_id]: change for change in receipt.changes}
    added = {n: each for n, each in newest.items() if each.change.is_new}
    again = {n: each for n, each in newest.items() if not each.change.is_new}
    messages.add(tx, list(added), list(added.values()))
    messages.fail_anew(tx, again)
    messages.count_attempts(
        tx, {n: c for n, c in changes.items() if c.details is None and c.attempts_added}
    )
    messages.confirm(tx, {n: c for n, c in changes.items() if c.confirmation is not None})


def _write_fields(tx: Transaction, newest: Mapping[int, Newest]) -> None:
    """Write the values of declared fields; where none is declared there is nothing to do."""
    read = {number: each.shown.attempt.failure.fields for number, each in newest.items()}
    values = {number: each for number, each in read.items() if each is not None}
    if values:
        stored = {number for number in values if not newest[number].change.is_new}
        fields.write(tx, values, stored)


def _find_late(
    tx: Transaction, stored: Iterable[NewAttempt], before: Before
) -> Sequence[tuple[str, RetryOutcome]]:
    """Return operation and outcome of retries that came back after they had been given up.

    Each counts once: when the first failure under its retry id is stored.
    """
    late = set()
    for each in stored:
        known = before.stored.get(each.attempt.unique_message_id)
        retry_id = each.attempt.failure.retry_id
        if known is None or known.number is None or retry_id is None:
            continue
        if retry_id in known.issued and retry_id not in known.outcomes:
            late.add((known.number, retry_id))
    if not late:
        return []
    return [(key, RetryOutcome(how)) for key, how in claims.find_given_up(tx, late)]


def _end_retries(
    tx: Transaction,
    changes: Iterable[MessageChange],
    numbers: Numbers,
    late: Sequence[tuple[str, RetryOutcome]],
) -> frozenset[str]:
    """End the claims of messages whose outcome arrived: failed again, or confirmed.

    A batch may hold both. The failure ended the claim then, as it would in a batch before: its
    retry is counted, and a second copy of it that fails later must not count again.

    Returns the ids of those whose retry was stamped. One that was stamped but not recorded has
    evidently been forwarded, so it is counted as forwarded here: recording it later will find no
    claim and count nothing.
    """
    ending = {numbers[c.unique_message_id]: c for c in changes if c.claim_ends}
    by_word = [n for n, change in ending.items() if change.details is None]
    by_failure = [n for n, change in ending.items() if change.details is not None]
    confirmed = end_claims(tx, sorted(by_word), RetryEnd.CONFIRMED)
    failed = end_claims(tx, sorted(by_failure), RetryEnd.FAILED)
    edits.end_with_outcome(tx, confirmed, "it was confirmed before that was recorded")
    edits.end_with_outcome(tx, failed, "it failed again before that was recorded")
    ended = [*confirmed, *failed]
    if any(claim.breaker_id is not None for claim in ended):
        count_outcomes(tx, {RetryEnd.CONFIRMED: confirmed, RetryEnd.FAILED: failed})
    sent = [claim for claim in ended if claim.sending_since]
    outcomes = {RetryOutcome.CONFIRMED: confirmed, RetryOutcome.CAME_BACK: failed}
    counts = Counter(
        (claim.operation_id, outcome)
        for outcome, claims_ended in outcomes.items()
        for claim in claims_ended
        if claim.sending_since
    )
    operations.count_outcomes(tx, counts, late)
    unrecorded = (claim.operation_id for claim in sent if not claim.forwarded_at)
    operations.count_forwarded(tx, unrecorded)
    return frozenset(ending[claim.number].unique_message_id for claim in sent)


def _holders(before: Before) -> BodyHolders:
    return {
        (each.number, each.body_hash): each.body_of
        for each in before.stored.values()
        if each.number is not None and each.body_of is not None
    }
