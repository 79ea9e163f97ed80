"""Judging the failures of a received batch, and writing what the batch changes."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from retrier.domain.decision import Decided
from retrier.domain.failed_message import RetryEnd
from retrier.domain.receipt import Before, MessageChange, Receipt
from retrier.domain.shown import searched_text
from retrier.policy.policy_set import WAITING, Judge, Policies
from retrier.store.engine.sql_dialect import NumberSource
from retrier.store.engine.transaction import Transaction
from retrier.store.tables import (
    causes,
    event_log,
    failed_messages,
    message_texts,
    outgoing,
    processing_attempts,
    retry_operations,
)
from retrier.store.tables.processing_attempts import (
    BodyHolders,
    NewAttempt,
    Newest,
    columns_of,
)
from retrier.store.verbs.breaker_counting import count_outcomes
from retrier.store.verbs.judging import (
    JudgedMessage,
    follow_up,
    judge_attempts,
    sum_up_waiting,
    tell_what_stands,
)
from retrier.store.verbs.retry_ends import end_claims

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
    cause_ids = causes.identify(tx, (each.failure.cause for each in receipt.attempts))
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
    processing_attempts.add(tx, stored, numbers, cause_ids, _holders(before))
    if into.forward_to is not None:
        ids = [each.attempt_id for each in stored]
        outgoing.add(tx, into.forward_to, ids, receipt.attempts, numbers)
    if policies.configured:
        decided = follow_up(tx, list(_decided(newest)), policies)
    else:
        decided = sum_up_waiting(each.judgement for each in _decided(newest))
    event_log.append(tx, tell_what_stands(receipt.changes))
    return Applied(
        came_back=_end_retries(tx, receipt.changes, numbers),
        reasons=Counter(each.judgement.failure_reason for each in stored),
        decided=decided,
    )


def _take_attempts(
    tx: Transaction, receipt: Receipt, before: Before, judge: Judge, policies: Policies
) -> list[NewAttempt]:
    """Judge the failures, and give each its id."""
    ids = processing_attempts.take_ids(tx, len(receipt.attempts))
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
    ids = message_texts.identify(tx, made.values())
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
    failed_messages.add(tx, list(added), list(added.values()))
    failed_messages.fail_anew(tx, again)
    failed_messages.count_attempts(
        tx, {n: c for n, c in changes.items() if c.details is None and c.attempts_added}
    )
    failed_messages.confirm(tx, {n: c for n, c in changes.items() if c.confirmation is not None})


def _end_retries(
    tx: Transaction, changes: Iterable[MessageChange], numbers: Numbers
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
    ended = [*confirmed, *failed]
    if any(claim.breaker_id is not None for claim in ended):
        count_outcomes(tx, {RetryEnd.CONFIRMED: confirmed, RetryEnd.FAILED: failed})
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
