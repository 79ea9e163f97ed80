"""Judging in the transaction that makes messages unresolved, and what follows from it there."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple, assert_never

from sqlalchemy import select

from retrier.domain.copies import DeadMessage
from retrier.domain.decision import Dead, Decided, Judgement, RetryAt, disposition_of
from retrier.domain.events import POLICIES
from retrier.domain.failed_message import Disposition, LastWord, Move
from retrier.domain.recording import Attempt, Before, MessageChange
from retrier.domain.retry_batch import Ejected, RetryBatch, RevertCause
from retrier.domain.retry_operation import (
    STANDING_OPERATION,
    Priority,
    RetryOperationState,
    RetryType,
)
from retrier.domain.text import count_messages
from retrier.policy.facts import Facts, facts_of
from retrier.policy.policy_set import Dice, Policies, judge_revert, unless_copy, unless_stands
from retrier.store import event_log, operations
from retrier.store.engine.transaction import Transaction
from retrier.store.event_log import Entry
from retrier.store.messages import legal
from retrier.store.outgoing import add_notices
from retrier.store.schedule import is_standing_missing, look_before_scheduling
from retrier.store.schema import causes, failed_messages

messages = failed_messages.c


_UNSENT = frozenset({RevertCause.RETURNED, RevertCause.REFUSED})

_FACTS = (
    "queue",
    "endpoint",
    "message_type",
    "exception_type",
    "exception_message",
    "failure_reason",
)
"""The columns of a cause that are facts of its failures."""


class JudgedMessage(NamedTuple):
    """A message that is unresolved now: the failure it shows, and what was decided about it.

    `failures` is its failure count.
    """

    number: int
    unique_message_id: str
    attempt_id: int
    judgement: Judgement
    failures: int


def judge_attempts(
    tx: Transaction, attempts: Iterable[Attempt], before: Before, policies: Policies, dice: Dice
) -> list[Judgement]:
    """Judge each of these failures; of one that changes nothing only the reason is meant."""
    so_far = _SoFar(before)
    if not policies.configured:
        return [
            so_far.settle(attempt, judgement)
            for attempt, judgement in _judge_alike(attempts, policies, dice)
        ]
    facts_for = _facts_once()
    now = tx.now
    judged = []
    for each in attempts:
        judgement = policies.judge(facts_for(each), failures=each.failures or 1, now=now, dice=dice)
        judged.append(so_far.settle(each, unless_copy(judgement, each.maybe_copy_of)))
    return judged


class _SoFar:
    """What was decided about the messages of a batch before it, and by its earlier failures."""

    def __init__(self, before: Before) -> None:
        self._stored = before.stored
        self._judged: dict[str, Judgement] = {}

    def settle(self, attempt: Attempt, judgement: Judgement) -> Judgement:
        """Return the judgement of a failure, or what stands of its message instead."""
        key = attempt.unique_message_id
        if attempt.standing is not None:
            judgement = unless_stands(judgement, attempt.standing, self._find(key) or judgement)
        if attempt.failures is not None:
            self._judged[key] = judgement
        return judgement

    def _find(self, key: str) -> Judgement | None:
        judged, stored = self._judged.get(key), self._stored.get(key)
        return judged if judged or stored is None else stored.decided


def _judge_alike(
    attempts: Iterable[Attempt], policies: Policies, dice: Dice
) -> Iterator[tuple[Attempt, Judgement]]:
    """Judge without policies: nothing depends on the time or on how often a message has failed.

    So all failures with the same facts have one judgement. Each microsecond counts here.
    """
    facts_for = _facts_once()
    known: dict[int, Judgement] = {}
    for attempt in attempts:
        facts = facts_for(attempt)
        judgement = known.get(id(facts))
        if judgement is None:
            now = attempt.failure.received_at
            judgement = known[id(facts)] = policies.judge(facts, failures=1, now=now, dice=dice)
        yield attempt, judgement


def judge_reverts(
    tx: Transaction,
    batch: RetryBatch,
    reverted: Mapping[int, Ejected],
    policies: Policies,
    dice: Dice,
) -> list[JudgedMessage]:
    """Judge messages whose retries could not be sent, by number; the caller has locked them.

    A retry that a policy asked for counts as one more failure. After one that a person asked for
    the count begins anew, whether it was issued or not.
    """
    by_policy = batch.operation_id == STANDING_OPERATION
    shown = ("number", "attempt_id", "failure_count", "maybe_copy_of", "reason")
    query = (
        select(*(messages[name] for name in shown), *(causes.c[name] for name in _FACTS))
        .join_from(failed_messages, causes)
        .where(tx.sql.member(messages.number, sorted(reverted)), legal(Move.REVERTED))
    )
    judged = []
    for row in tx.execute(query):
        item = reverted[row.number]
        failures = row.failure_count + 1 if by_policy else 1
        known = {name: getattr(row, name) for name in _FACTS}
        facts = Facts(
            **known,
            unsent=item.cause in _UNSENT,
            unsendable=item.unsendable,
            known=row.reason,
        )
        judgement = policies.judge(facts, failures=failures, now=tx.now, dice=dice)
        judgement = unless_copy(judgement, row.maybe_copy_of)
        judged.append(
            JudgedMessage(
                number=row.number,
                unique_message_id=item.unique_message_id,
                attempt_id=row.attempt_id,
                judgement=judge_revert(judgement, item, configured=policies.configured),
                failures=failures,
            )
        )
    return judged


def follow_up(
    tx: Transaction,
    judged: Sequence[JudgedMessage],
    policies: Policies,
    batch: RetryBatch | None = None,
) -> tuple[Decided, ...]:
    """Do what follows from judgements whose messages are written; return what was decided.

    The standing operation is there and knows when the first is due, each dead message has its
    notice, and one event tells of all that one rule decided alike: a hundred thousand failures that
    are dead at once must not be as many events. Call it when the messages and attempts are written.
    """
    alike: dict[tuple[Disposition, str | None], list[JudgedMessage]] = {}
    for each in judged:
        decision = each.judgement.decision
        alike.setdefault((disposition_of(decision), decision.policy), []).append(each)
    decided = tuple(_sum_up(*key, members) for key, members in alike.items())
    due = [each.earliest for each in decided if each.earliest is not None]
    if due:
        ensure_standing(tx, min(due))
    if policies.notices is not None:
        dead = [
            DeadMessage(number=each.number, attempt_id=each.attempt_id)
            for each in judged
            if isinstance(each.judgement.decision, Dead)
        ]
        add_notices(tx, policies.notices, dead)
    event_log.append(tx, list(_tell(alike, decided, batch)))
    return decided


def sum_up_waiting(judgements: Iterable[Judgement]) -> tuple[Decided, ...]:
    """Return what was decided without policies: each message waits, and nothing follows."""
    reasons = Counter(each.reason for each in judgements)
    waiting = Decided(
        disposition=Disposition.MANUAL,
        policy=None,
        count=reasons.total(),
        reasons=reasons,
        earliest=None,
    )
    return (waiting,) if reasons else ()


def entries_of_standing(changes: Iterable[MessageChange]) -> list[Entry]:
    """Return events about messages that failed again after a person's last word: one for each word."""
    failed: dict[LastWord, list[str]] = {}
    for change in changes:
        if change.details is not None and change.details.word is not None:
            failed.setdefault(change.details.word, []).append(change.unique_message_id)
    return [_describe_word(word, keys) for word, keys in failed.items()]


def _describe_word(word: LastWord, keys: Sequence[str]) -> Entry:
    one = keys[0] if len(keys) == 1 else None
    text = (
        f"{one or count_messages(len(keys))}: failed again after a person's last word "
        f"({word}): nothing is retried by itself"
    )
    details: dict[str, object] = {"last_word": word, "count": len(keys)}
    return Entry(kind="failed_after_last_word", text=text, unique_message_id=one, details=details)


def _facts_once() -> Callable[[Attempt], Facts]:
    """Return what gives the facts of a failure: made once for all failures of one cause."""
    known: dict[tuple[int, int, str | None], Facts] = {}

    def facts_for(attempt: Attempt) -> Facts:
        failure = attempt.failure
        details = failure.details
        # Failures of one received batch with the same texts have one and the same cause.
        key = (id(failure.cause), details.crashes, details.rejected)
        facts = known.get(key)
        if facts is None:
            facts = known[key] = facts_of(details)
        return facts

    return facts_for


def _sum_up(
    disposition: Disposition, policy: str | None, members: Sequence[JudgedMessage]
) -> Decided:
    times = [d.at for each in members if isinstance(d := each.judgement.decision, RetryAt)]
    return Decided(
        disposition=disposition,
        policy=policy,
        count=len(members),
        reasons=Counter(each.judgement.reason for each in members),
        earliest=min(times, default=None),
    )


def _tell(
    alike: Mapping[tuple[Disposition, str | None], Sequence[JudgedMessage]],
    decided: Iterable[Decided],
    batch: RetryBatch | None,
) -> Iterator[Entry]:
    """Yield an event for each rule that scheduled messages or gave them up."""
    for each, members in zip(decided, alike.values(), strict=True):
        entry = _describe(each, members)
        if entry is not None:
            ids = (batch.operation_id, batch.batch_id) if batch else (None, None)
            yield replace(entry, operation_id=ids[0], batch_id=ids[1])


def _describe(decided: Decided, members: Sequence[JudgedMessage]) -> Entry | None:
    one = members[0].unique_message_id if len(members) == 1 else None
    about = one or count_messages(decided.count)
    by = f"policy {decided.policy}" if decided.policy else "no policy"
    why = members[0].judgement.decision.why
    details: dict[str, object] = {
        "policy": decided.policy,
        "count": decided.count,
        "reasons": dict(decided.reasons),
    }
    match decided.disposition:
        case Disposition.MANUAL:
            return None
        case Disposition.SCHEDULED:
            due = f"{decided.earliest:%Y-%m-%d %H:%M:%S}Z"
            text = f"{about}: to be retried, the first at {due} ({by})"
            return Entry(kind="retry_scheduled", text=text, unique_message_id=one, details=details)
        case Disposition.DEAD:
            text = f"{about}: dead ({by}): {why}"
            return Entry(kind="message_dead", text=text, unique_message_id=one, details=details)
        case _ as never:
            assert_never(never)


_BLANK: Mapping[str, object] = MappingProxyType(
    {
        "operation_id": STANDING_OPERATION,
        "retry_type": RetryType.BY_POLICY,
        "selection": {"disposition": Disposition.SCHEDULED.value},
        # Neither is used: what it takes is found by its time.
        **dict.fromkeys(("cut_off", "floor"), 0),
        "originator": "what is due by policy",
        "requested_by": POLICIES,
        "priority": int(Priority.POLICY),
        "state": RetryOperationState.WAITING,
        **dict.fromkeys(("total", "forwarded", "skipped", "failed", "batches"), 0),
    }
)


def ensure_standing(tx: Transaction, earliest: datetime) -> None:
    """Have the messages sent that this transaction schedules; `earliest` is when the first is due.

    Adds the standing operation if it is missing, and wakes the processor if it would else sleep
    for longer. One query if the operation is there; no row is locked and nobody is waited for, so
    it may be called at any place of the transaction.
    """
    is_made, wakes_by_then = look_before_scheduling(tx, earliest)
    if not is_made:
        _make(tx)
    if not wakes_by_then:
        tx.sql.announce_request(tx.conn)


def mend_standing(tx: Transaction) -> None:
    """Add the standing operation if messages are scheduled and it is missing.

    Who schedules the first message while another transaction adds it relies on that one, which
    may be rolled back.
    """
    if is_standing_missing(tx):
        _make(tx)


def _make(tx: Transaction) -> None:
    # Two that insert it would wait for each other with rows locked: the other one makes it.
    if tx.sql.makes_standing(tx.conn):
        operations.add(tx, dict(_BLANK))
