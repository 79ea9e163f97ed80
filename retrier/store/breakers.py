"""Breakers: turned by the processor and by people, counted for, and what they hold taken out.

A claim says under which breaker it is counted, and when it was sent (`sending_since`). Counting is
done in the transactions in which retries are recorded and end; each thread adds to rows of its own
(`breaker_counts`). Only the processor gives claims a breaker: without one configured nothing here
costs a query.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any

from sqlalchemy import bindparam, delete, exists, or_, select, update

from retrier.domain.breakers import (
    CAME_BACK,
    CONFIRMED,
    RETURNED,
    SENT,
    Breaker,
    BreakerKey,
    BreakerRules,
    BreakerState,
    BreakerTerms,
    Close,
    EndHand,
    LookAt,
    ManualState,
    Moment,
    NoteConfirms,
    Open,
    Per,
    SentCounts,
    TryOne,
    Verdict,
    add_up,
    begin_of,
    closed,
    follow,
    why_closed,
    why_waiting,
)
from retrier.domain.events import SERVICE
from retrier.domain.failed_message import FailedMessageStatus, RetryEnd
from retrier.domain.retry_batch import Ejected, RetryBatch, RevertCause
from retrier.domain.text import count_messages
from retrier.domain.values import dataclass
from retrier.store import claims, event_log, messages, operations
from retrier.store.breaker_lists import breaker_from_row
from retrier.store.engine.database import writing
from retrier.store.engine.transaction import StoredRow, Transaction
from retrier.store.event_log import Entry, short
from retrier.store.lease import fenced
from retrier.store.schema import (
    breaker_counts,
    breakers,
    causes,
    failed_message_retries,
    failed_messages,
    retry_operations,
)
from retrier.store.selections import from_json

columns = breakers.c
claim_columns = failed_message_retries.c
counts = breaker_counts.c


GRAINS = 20
"""Into how many parts the time is divided in which what was sent counts."""
_NOT_CLOSED = or_(columns.state != BreakerState.CLOSED, columns.hand.is_not(None))
_BEGIN_TRIAL = (
    update(breakers)
    .where(
        columns.breaker_id == bindparam("breaker"),
        columns.state == BreakerState.HALF_OPEN,
        columns.trial_number.is_(None),
    )
    .values(
        trial_number=bindparam("number"),
        trial_retry_id=select(claim_columns.retry_id)
        .where(
            claim_columns.number == bindparam("number"),
            claim_columns.batch_id == bindparam("batch"),
        )
        .scalar_subquery(),
    )
)

# One statement that is sent once for each row, all at once: a round trip for each would take a
# second when a thousand breakers turn together.
_ONE = columns.breaker_id == bindparam("breaker")
_FOLLOW_RULE = (
    update(breakers)
    .where(_ONE)
    .values({name: bindparam(name) for name in ("rule", "grain_ms", "last_outcomes")})
)
_WRITTEN = (
    *("state", "changed_at", "opened_at", "due_at", "cooldown_ms", "sent", "failed", "confirms"),
    *("trial_number", "trial_retry_id", "hand", "hand_until", "hand_who", "hand_why"),
)
_WRITE = update(breakers).where(_ONE).values({name: bindparam(name) for name in _WRITTEN})


def add_unknown(tx: Transaction, keys: Sequence[BreakerKey]) -> None:
    """Add a closed breaker for each of these keys that has none."""
    if not keys:
        return
    known = sorted((str(key), key) for key in keys)
    columns_of = {
        "breaker_key": [text for text, _ in known],
        "per": [key.per.value for _, key in known],
        "name": [key.name for _, key in known],
    }
    same = {"state": BreakerState.CLOSED, "changed_at": tx.now}
    tx.sql.add_missing(tx.conn, breakers, columns_of, same)


def lock(tx: Transaction, keys: Sequence[BreakerKey]) -> Mapping[str, StoredRow]:
    """Lock the breakers of these keys; return their rows by key."""
    those = tx.sql.member(columns.breaker_key, sorted(map(str, keys)))
    query = select(breakers).where(those).order_by(columns.breaker_id).with_for_update()
    return {row.breaker_key: row for row in tx.execute(query)}


def lock_not_closed(tx: Transaction) -> Sequence[StoredRow]:
    """Lock the breakers that are not closed, or that a person has set; return their rows.

    Who closes one waits for the caller: so it finds what the caller left out because of it.
    """
    query = select(breakers).where(_NOT_CLOSED).order_by(columns.breaker_id).with_for_update()
    return tx.execute(query).all()


def _grain(terms: BreakerTerms) -> int:
    return max(1, int(terms.time.total_seconds() * 1000) // GRAINS)


def write(tx: Transaction, turned: Sequence[Breaker]) -> None:
    """Write breakers that the caller has locked, as they are now."""
    if turned:
        tx.execute(_WRITE, [_row(each) for each in turned])


def _row(breaker: Breaker) -> dict[str, object]:
    trial, hand = breaker.trial, breaker.hand
    return {
        "breaker": breaker.breaker_id,
        "state": breaker.state,
        "changed_at": breaker.changed_at,
        "opened_at": breaker.opened_at,
        "due_at": breaker.due_at,
        "cooldown_ms": round(breaker.cooldown.total_seconds() * 1000),
        "sent": breaker.sent,
        "failed": breaker.failed,
        "confirms": breaker.confirms,
        "trial_number": None if trial is None else trial.number,
        "trial_retry_id": None if trial is None else trial.retry_id,
        "hand": None if hand is None else hand.state,
        "hand_until": None if hand is None else hand.until,
        "hand_who": None if hand is None else short(hand.who),
        "hand_why": None if hand is None else short(hand.why),
    }


def begin_trials(tx: Transaction, batch_id: str, trials: Mapping[int, int]) -> None:
    """Note which claims of a batch try half-open breakers."""
    rows = [
        {"breaker": breaker_id, "batch": batch_id, "number": number}
        for breaker_id, number in sorted(trials.items())
    ]
    if rows:
        tx.execute(_BEGIN_TRIAL, rows)


_ADDED = ("sent", "returned", "came_back", "confirmed", "outcomes")


def add_counts(tx: Transaction, sums: Mapping[Moment, SentCounts]) -> None:
    """Add to the rows of this thread, in the order of their keys; one statement for all.

    The processor holds the lease meanwhile, and in an outage there are as many as messages.
    """
    if not sums:
        return
    keys = sorted(sums)
    columns: dict[str, list[Any]] = {
        "breaker_id": [breaker_id for breaker_id, _ in keys],
        "since": [since for _, since in keys],
        **{name: [getattr(sums[key], name) for key in keys] for name in _ADDED},
    }
    insert = tx.sql.insert_columns(breaker_counts, columns, {"counted_by": tx.counted_by})
    more = {name: counts[name].concat(insert.excluded[name]) for name in ("outcomes",)} | {
        name: counts[name] + insert.excluded[name] for name in _ADDED[:-1]
    }
    same = ["breaker_id", "since", "counted_by"]
    tx.execute(insert.on_conflict_do_update(index_elements=same, set_=more))


def forget_counts(tx: Transaction, before: Mapping[int, datetime]) -> None:
    """Delete what this thread counted for these breakers before these times.

    One statement for each time, and not for each breaker: most of them have one time.
    """
    by_time: dict[datetime, list[int]] = {}
    for breaker_id, moment in sorted(before.items()):
        by_time.setdefault(moment, []).append(breaker_id)
    for moment, ids in by_time.items():
        old = (counts.counted_by == tx.counted_by, counts.since < moment)
        tx.execute(delete(breaker_counts).where(tx.sql.member(counts.breaker_id, ids), *old))


def sweep_counts(tx: Transaction, before: datetime) -> int:
    """Delete what was counted before that, by any thread; return how many rows."""
    old = counts.since < before
    return tx.execute(delete(breaker_counts).where(old)).rowcount


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnedBreaker:
    """A breaker after a verdict, and what is said of it; None if it is not worth a word."""

    breaker: Breaker
    verdict: Verdict
    words: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedBreaker:
    """A breaker that a person has set, and when. `known`: something has failed or was sent there."""

    breaker: Breaker
    known: bool
    at: datetime


@fenced
def turn_breakers(
    tx: Transaction, verdicts: Sequence[tuple[Breaker, Verdict]]
) -> tuple[TurnedBreaker, ...]:
    """Let breakers follow these verdicts, those that are still as they were judged.

    Where retries may go again, operations look again for what they left out. Raises LeaseLost,
    DatabaseUnavailable.
    """
    rows = lock(tx, [breaker.key for breaker, _ in verdicts])
    turned = []
    for breaker, verdict in verdicts:
        if breaker_from_row(rows[str(breaker.key)]) != breaker:
            continue  # a person was faster
        after = follow(breaker, verdict, tx.now)
        turned.append(TurnedBreaker(breaker=after, verdict=verdict, words=_say(after, verdict, tx)))
    write(tx, [each.breaker for each in turned])
    if any(isinstance(each.verdict, TryOne | Close | EndHand) for each in turned):
        operations.look_again(tx)
    event_log.append(
        tx,
        [
            _entry(_KINDS[type(each.verdict)], each.breaker, each.words)
            for each in turned
            if each.words is not None
        ],
    )
    return tuple(turned)


_KINDS: Mapping[type[Verdict], str] = {
    Open: "breaker_opened",
    TryOne: "breaker_half_opened",
    Close: "breaker_closed",
    EndHand: "breaker_hand_ended",
}


def _say(breaker: Breaker, verdict: Verdict, tx: Transaction) -> str | None:
    match verdict:
        case Open() | TryOne():
            return why_waiting(breaker, tx.now)
        case Close(why=why):
            return why_closed(breaker, why)
        case EndHand():
            return why_waiting(breaker, tx.now) or why_closed(breaker, "its time by hand is over")
        case LookAt() | NoteConfirms():
            return None


def _entry(kind: str, breaker: Breaker, text: str, who: str = SERVICE) -> Entry:
    return Entry(kind=kind, text=text, who=who, details={"breaker": str(breaker.key)})


@writing
def set_breaker(
    tx: Transaction,
    key: BreakerKey,
    state: BreakerState,
    *,
    lasts: timedelta | None,
    who: str,
    why: str | None,
) -> HandedBreaker:
    """Open or close a breaker by hand, for so long; closed without a time, it counts anew at once.

    What was counted is forgotten. Raises DatabaseUnavailable.
    """
    before = lock(tx, [key])
    known = bool(before) or _is_known(tx, key)
    if not before:
        add_unknown(tx, [key])
        before = lock(tx, [key])
    breaker = breaker_from_row(before[str(key)])
    until = None if lasts is None else tx.now + lasts
    hand = None if until is None else ManualState(state=state, until=until, who=who, why=why)
    if state is BreakerState.CLOSED:
        breaker = closed(breaker, tx.now)
    after = replace(breaker, hand=hand, changed_at=tx.now)
    write(tx, [after])
    if state is BreakerState.CLOSED:
        operations.look_again(tx)
    text = why_waiting(after, tx.now) or why_closed(after, why or "a person says so")
    kind = "breaker_closed" if state is BreakerState.CLOSED else "breaker_opened"
    event_log.append(tx, [_entry(kind, after, text, who)])
    tx.sql.announce_request(tx.conn)
    return HandedBreaker(breaker=after, known=known, at=tx.now)


def _is_known(tx: Transaction, key: BreakerKey) -> bool:
    column = causes.c.destination if key.per is Per.DESTINATION else causes.c.message_type
    return bool(tx.execute(select(exists().where(column == key.name))).scalar_one())


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedClaims:
    """Claims of a batch, by number, and the breaker and rule under which they are counted."""

    key: BreakerKey
    rule: str
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    """Which breakers count what becomes of the claims of a batch, and by which rules."""

    claims: tuple[CountedClaims, ...]
    rules: BreakerRules


NOTHING_COUNTED = Counting(claims=(), rules=BreakerRules())


def add_breakers(tx: Transaction, counting: Counting) -> Mapping[BreakerKey, int]:
    """Return the ids of the breakers of these claims; those that are missing are added.

    To be called before any message or claim is locked: cuts lock breakers first.
    """
    keys = sorted({each.key for each in counting.claims})
    add_unknown(tx, keys)
    rows, rules = lock(tx, keys), counting.rules
    ruling = {key: rows[str(key)].rule for key in keys}
    for each in counting.claims:
        ruling[each.key] = rules.first(ruling[each.key], each.rule)
    followed = []
    for key, rule in ruling.items():
        row, terms = rows[str(key)], rules.terms_of(rule)
        if terms is None:
            continue
        follows = {"rule": rule, "grain_ms": _grain(terms), "last_outcomes": terms.last}
        if any(getattr(row, name) != value for name, value in follows.items()):
            followed.append({"breaker": row.breaker_id, **follows})
    if followed:
        tx.execute(_FOLLOW_RULE, sorted(followed, key=itemgetter("breaker")))
    return {key: rows[str(key)].breaker_id for key in keys}


def count_claims(
    tx: Transaction, batch_id: str, counting: Counting, ids: Mapping[BreakerKey, int]
) -> None:
    """Let breakers count what becomes of these claims."""
    counted = {number: ids[each.key] for each in counting.claims for number in each.numbers}
    claims.count_under(tx, batch_id, counted)


OUTCOMES_KEPT = timedelta(days=1)
"""How far back the last outcomes are looked for."""
_OUTCOMES = {RetryEnd.CONFIRMED: CONFIRMED, RetryEnd.FAILED: CAME_BACK}
_SENT_NOWHERE = frozenset({RevertCause.RETURNED, RevertCause.REFUSED})


def count_sent(tx: Transaction, recorded: Iterable[StoredRow]) -> None:
    """Count retries that are recorded as sent now; all of them have a breaker."""
    _count(tx, ((_moment(claim), SENT) for claim in recorded))


def count_reverted(
    tx: Transaction, ended: Iterable[StoredRow], ejected: Mapping[int, Ejected]
) -> None:
    """Count retries that the broker returned or refused; others were never sent."""
    _count(
        tx,
        (
            (_moment(claim), RETURNED)
            for claim in ended
            if _is_counted(claim) and ejected[claim.number].cause in _SENT_NOWHERE
        ),
    )


def count_outcomes(tx: Transaction, ended: Mapping[RetryEnd, Sequence[StoredRow]]) -> None:
    """Count retries that came back or were confirmed.

    One that is not recorded was sent evidently: recording it later finds no claim.
    """
    _count(
        tx,
        (
            (_moment(claim), _OUTCOMES[how] if claim.forwarded_at else _OUTCOMES[how] + SENT)
            for how, claims in ended.items()
            for claim in claims
            if _is_counted(claim)
        ),
    )


def _is_counted(claim: StoredRow) -> bool:
    return claim.breaker_id is not None and claim.sending_since is not None


def _moment(claim: StoredRow) -> Moment:
    return claim.breaker_id, claim.sending_since


def _count(tx: Transaction, counted: Iterable[tuple[Moment, SentCounts]]) -> None:
    sums = add_up(counted)
    if not sums:
        return
    # Read after the claims: whoever stamped a claim after a change of its breaker had committed
    # that change. So nothing is counted for a time before the change by mistake.
    known = _look_up(tx, sorted({breaker_id for breaker_id, _ in sums}))
    placed = (
        ((breaker_id, begin), _last(each, known[breaker_id].last_outcomes))
        for (breaker_id, sent_at), each in sorted(sums.items(), key=itemgetter(0))
        if breaker_id in known and (begin := _begin_of(known[breaker_id], sent_at)) is not None
    )
    add_counts(tx, add_up(placed))
    forget_counts(tx, {key: tx.now - _kept(row) for key, row in known.items()})
    if any(row.state == BreakerState.HALF_OPEN for row in known.values()):
        # Perhaps the one that tries it has its outcome: the processor is to look now.
        tx.sql.announce_request(tx.conn)


def _look_up(tx: Transaction, ids: Sequence[int]) -> Mapping[int, StoredRow]:
    query = select(
        columns.breaker_id,
        columns.changed_at,
        columns.grain_ms,
        columns.last_outcomes,
        columns.state,
    ).where(tx.sql.member(columns.breaker_id, ids), columns.grain_ms.is_not(None))
    return {row.breaker_id: row for row in tx.execute(query)}


def _begin_of(breaker: StoredRow, sent_at: datetime) -> datetime | None:
    return begin_of(sent_at, timedelta(milliseconds=breaker.grain_ms), breaker.changed_at)


def _kept(breaker: StoredRow) -> timedelta:
    if breaker.last_outcomes is not None:
        return OUTCOMES_KEPT
    return timedelta(milliseconds=breaker.grain_ms) * (GRAINS + 1)


def _last(counted: SentCounts, most: int | None) -> SentCounts:
    """Keep as many outcomes as are looked at; none if only a time is."""
    return replace(counted, outcomes=counted.outcomes[-most:] if most else "")


@fenced
def hold_back(
    tx: Transaction, batch: RetryBatch, held: Mapping[int, Sequence[int]]
) -> frozenset[int]:
    """Release the claims of these messages, by breaker, that are not to be sent now.

    Not what a person named, not the trial of a breaker, not what was staged before: only of
    unresolved messages it is certain that nothing was sent. They are not counted as skipped: the
    operation looks again for them when the breaker is closed. Returns the numbers of those that
    left the batch. Raises LeaseLost, DatabaseUnavailable.
    """
    # Locked first, as cuts do: who closes one of them waits, and then finds what was left out.
    holding = {row.breaker_id: breaker_from_row(row) for row in lock_not_closed(tx)}
    open_now = {key: each for key, each in holding.items() if _holds(tx, each)}
    wanted = sorted(
        {
            number
            for breaker_id, numbers in held.items()
            if breaker_id in open_now
            for number in numbers
            if not _tries(open_now[breaker_id], number)
        }
    )
    if not wanted or _is_named(tx, batch):
        return frozenset()
    freed = _release(tx, batch, wanted)
    if freed:
        operations.count_left_out(tx, batch.operation_id, len(freed))
        event_log.append(tx, [_held_entry(tx, batch, len(freed), open_now, held)])
    return frozenset(freed)


def _holds(tx: Transaction, breaker: Breaker) -> bool:
    return breaker.state_at(tx.now) is not BreakerState.CLOSED


def _tries(breaker: Breaker, number: int) -> bool:
    is_trial = breaker.trial is not None and breaker.trial.number == number
    return is_trial and breaker.hand is None


def _is_named(tx: Transaction, batch: RetryBatch) -> bool:
    rows = retry_operations.c
    query = select(rows.selection).where(rows.operation_id == batch.operation_id)
    return from_json(tx.execute(query).scalar_one()).ids is not None


def _release(tx: Transaction, batch: RetryBatch, numbers: Sequence[int]) -> Sequence[int]:
    messages.lock(tx, numbers)
    claims.lock_batch(tx, batch.batch_id)
    found, mine = failed_messages.c, failed_message_retries.c
    query = (
        select(found.number)
        .join_from(failed_messages, failed_message_retries, mine.number == found.number)
        .where(
            tx.sql.member(found.number, numbers),
            found.status == FailedMessageStatus.UNRESOLVED,
            mine.batch_id == batch.batch_id,
            mine.sending_since.is_(None),
        )
    )
    freed = tx.execute(query).scalars().all()
    claims.drop(tx, freed)
    return freed


def _held_entry(
    tx: Transaction,
    batch: RetryBatch,
    count: int,
    open_now: Mapping[int, Breaker],
    held: Mapping[int, Sequence[int]],
) -> Entry:
    reasons = (why_waiting(each, tx.now) for key, each in open_now.items() if key in held)
    why = "; ".join(each for each in reasons if each is not None)
    return Entry(
        kind="batch_held_back",
        text=f"{count_messages(count)} left the batch: {why}",
        operation_id=batch.operation_id,
        batch_id=batch.batch_id,
    )
