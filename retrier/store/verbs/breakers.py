"""Breakers: turned by the processor and by people, and what they hold taken out of a batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import exists, select

from retrier.domain.breakers import (
    Breaker,
    BreakerKey,
    BreakerRules,
    BreakerState,
    Close,
    EndHand,
    Hand,
    LookAt,
    NoteConfirms,
    Open,
    Per,
    TryOne,
    Verdict,
    closed,
    follow,
    why_closed,
    why_waiting,
)
from retrier.store.engine.database import writing
from retrier.store.engine.transaction import Transaction
from retrier.store.queries.breakers import breaker_from_row
from retrier.store.schema import causes
from retrier.store.tables import breakers, claims, event_log, retry_operations
from retrier.store.tables.event_log import Entry
from retrier.store.verbs.leases import fenced


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
    rows = breakers.lock(tx, [breaker.key for breaker, _ in verdicts])
    turned = []
    for breaker, verdict in verdicts:
        if breaker_from_row(rows[str(breaker.key)]) != breaker:
            continue  # a person was faster
        after = follow(breaker, verdict, tx.now)
        turned.append(TurnedBreaker(breaker=after, verdict=verdict, words=_say(after, verdict, tx)))
    breakers.write(tx, [each.breaker for each in turned])
    if any(isinstance(each.verdict, TryOne | Close | EndHand) for each in turned):
        retry_operations.look_again(tx)
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


def _entry(kind: str, breaker: Breaker, text: str, who: str = event_log.SERVICE) -> Entry:
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
    before = breakers.lock(tx, [key])
    known = bool(before) or _is_known(tx, key)
    if not before:
        breakers.add_unknown(tx, [key])
        before = breakers.lock(tx, [key])
    breaker = breaker_from_row(before[str(key)])
    until = None if lasts is None else tx.now + lasts
    hand = None if until is None else Hand(state=state, until=until, who=who, why=why)
    if state is BreakerState.CLOSED:
        breaker = closed(breaker, tx.now)
    after = replace(breaker, hand=hand, changed_at=tx.now)
    breakers.write(tx, [after])
    if state is BreakerState.CLOSED:
        retry_operations.look_again(tx)
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
    breakers.add_unknown(tx, keys)
    rows, rules = breakers.lock(tx, keys), counting.rules
    ruling = {key: rows[str(key)].rule for key in keys}
    for each in counting.claims:
        ruling[each.key] = rules.first(ruling[each.key], each.rule)
    followed = {}
    for key, rule in ruling.items():
        row, terms = rows[str(key)], rules.terms_of(rule)
        if terms is not None and not breakers.follows(row, rule, terms):
            followed[row.breaker_id] = (rule, terms)
    breakers.follow_rules(tx, followed)
    return {key: rows[str(key)].breaker_id for key in keys}


def count_claims(
    tx: Transaction, batch_id: str, counting: Counting, ids: Mapping[BreakerKey, int]
) -> None:
    """Let breakers count what becomes of these claims."""
    counted = {number: ids[each.key] for each in counting.claims for number in each.numbers}
    claims.count_under(tx, batch_id, counted)
