"""Breakers as rows: the state in words, since when, why, and how many messages wait."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from retrier.domain.breakers import Breaker, BreakerKey, BreakerState, Hand, Per, why_waiting
from retrier.web.snapshot import Snapshot
from retrier.web.wording import number, plural, sentence

KINDS: Mapping[Per, str] = {Per.DESTINATION: "queue", Per.MESSAGE_TYPE: "message type"}
_STATES: Mapping[BreakerState, tuple[str, str]] = {
    BreakerState.CLOSED: ("closed", ""),
    BreakerState.OPEN: ("open", "bad"),
    BreakerState.HALF_OPEN: ("being tried", "wait"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerRow:
    """One breaker. `waiting` counts the messages that wait for it; `live` begins its live keys.

    `failed` says what was counted when it opened. `until` and `until_at` say what happens next: a
    person's word ends, or it is looked at again.
    """

    key: str
    name: str
    kind: str
    state: str
    tone: str
    words: str
    failed: str
    waiting: int
    since: datetime
    until: str
    until_at: datetime | None
    is_closed: bool
    live: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerList:
    """All that the page shows; `queues` are suggested, as messages failed there."""

    rows: Sequence[BreakerRow]
    queues: Sequence[str]
    counted_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class HandQuestion:
    """What a person is asked before a breaker is opened, or closed, by hand."""

    key: str
    name: str
    kind: str
    opens: bool
    title: str
    lead: str
    words: str


def breaker_list(found: Snapshot) -> BreakerList:
    """Return the breakers with what waits for each."""
    return BreakerList(
        rows=breaker_rows(found),
        queues=sorted(each.key for each in found.queues),
        counted_at=found.at,
    )


def breaker_rows(found: Snapshot) -> Sequence[BreakerRow]:
    """Return all breakers as rows, those that are not closed first."""
    return [_row(each, found) for each in found.breakers.breakers]


def _row(each: Breaker, found: Snapshot) -> BreakerRow:
    at = found.breakers.at
    state, hand = each.state_at(at), _hand(each, at)
    words, tone = _STATES[state]
    is_closed = state is BreakerState.CLOSED
    until, until_at = _next(each, hand, is_closed=is_closed)
    return BreakerRow(
        key=str(each.key),
        name=each.key.name,
        kind=KINDS[each.key.per],
        state=words,
        tone=tone,
        words=_words(each, at, hand),
        failed=_failed(each) if each.opened_at and not is_closed else "",
        waiting=found.count_of(found.breakers.causes.get(each.key, ())),
        since=each.changed_at if is_closed else each.held_since,
        until=until,
        until_at=until_at,
        is_closed=is_closed,
        live=f"breaker/{each.key}",
    )


def _hand(each: Breaker, at: datetime) -> Hand | None:
    return each.hand if each.hand is not None and at < each.hand.until else None


def _next(each: Breaker, hand: Hand | None, *, is_closed: bool) -> tuple[str, datetime | None]:
    if hand is not None:
        return "by hand until", hand.until
    if is_closed or each.due_at is None:
        return "", None
    return "looked at again at", each.due_at


def _failed(each: Breaker) -> str:
    return f"{number(each.failed)} of {number(each.sent)}"


def _words(each: Breaker, at: datetime, hand: Hand | None) -> str:
    why = why_waiting(each, at)
    if why is not None:
        return sentence(why)
    return "Retries go." if hand is None else f"Retries go: {hand.who} keeps it closed."


def ask_hand(key: BreakerKey, found: Snapshot, concerned: int, *, opens: bool) -> HandQuestion:
    """Return the question before a person's word; `concerned` counts the messages it is about."""
    known = [each for each in found.breakers.breakers if each.key == key]
    why = next((why_waiting(each, found.breakers.at) for each in known), None)
    count = f"{plural(concerned, 'unresolved message')} {'goes' if concerned == 1 else 'go'} there"
    what = "wait, and others go on. What somebody names by its id still goes."
    lead = f"{count}: their retries {what}" if opens else f"{count}: their retries go again."
    return HandQuestion(
        key=str(key),
        name=key.name,
        kind=KINDS[key.per],
        opens=opens,
        title="Open this breaker?" if opens else "Close this breaker?",
        lead=lead if concerned else "No unresolved message goes there now.",
        words="" if why is None else sentence(why),
    )
