"""Breakers: which destinations get no retries now; opened and closed by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from fastapi import APIRouter, HTTPException, Request, Response

from retrier.domain.breakers import (
    LONGEST_HAND,
    NO_KEY,
    SHORTEST_HAND,
    Breaker,
    BreakerKey,
    BreakerState,
    ManualState,
    Per,
    has_name,
    parse_key,
    why_waiting,
)
from retrier.domain.values import dataclass
from retrier.store.breaker_lists import find_causes_of, show_breakers
from retrier.web.counts import Snapshot
from retrier.web.forms import Form, SentForm
from retrier.web.page import see_other, show
from retrier.web.parts import PageParts, Parts
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
    person's word ends, or its destination is tried again.
    """

    key: BreakerKey
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


def breaker_rows(found: Snapshot) -> Sequence[BreakerRow]:
    """Return all breakers as rows, those that are not closed first."""
    return [_row(each, found) for each in found.breakers.breakers]


def _row(each: Breaker, found: Snapshot) -> BreakerRow:
    at = found.breakers.at
    state = each.state_at(at)
    hand = each.hand if each.hand is not None and at < each.hand.until else None
    words, tone = _STATES[state]
    is_closed = state is BreakerState.CLOSED
    due = None if is_closed else each.due_at
    opened = each.opened_at is not None and not is_closed
    return BreakerRow(
        key=each.key,
        kind=KINDS[each.key.per],
        state=words,
        tone=tone,
        words=_words(each, at, hand),
        failed=f"{number(each.failed)} of {number(each.sent)}" if opened else "",
        waiting=found.count_of(found.breakers.causes.get(each.key, ())),
        since=each.changed_at if is_closed else each.held_since,
        until="by hand until" if hand else "looked at again at" if due else "",
        until_at=hand.until if hand else due,
        is_closed=is_closed,
        live=f"breaker/{each.key}",
    )


def _words(each: Breaker, at: datetime, hand: ManualState | None) -> str:
    why = why_waiting(each, at)
    if why is not None:
        return sentence(why)
    return "Retries go." if hand is None else f"Retries go: {hand.who} keeps it closed."


router = APIRouter(prefix="/breakers")

_HERE = "/breakers"
_UNITS: Mapping[str, timedelta] = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_NO_TIME = "It is held by hand for 1 second to 7 days: a whole number with its unit."


@router.get("")
def get_breakers(request: Request, parts: Parts) -> Response:
    """List the breakers, those that are not closed first."""
    found = _snapshot(parts)
    return show(
        request,
        "breakers.html",
        current=_HERE,
        rows=breaker_rows(found),
        queues=sorted(each.key for each in found.queues),
        counted_at=found.at,
    )


@router.get("/open")
def ask_open(request: Request, parts: Parts, breaker: str = "") -> Response:
    """Say what would wait, and ask for how long and why."""
    return _ask(request, parts, breaker, opens=True)


@router.get("/close")
def ask_close(request: Request, parts: Parts, breaker: str = "") -> Response:
    """Say what would go again, and ask whether it is to stay closed."""
    return _ask(request, parts, breaker, opens=False)


@router.post("/open")
def open_breaker(parts: Parts, form: SentForm) -> Response:
    """Stop retries to a queue, or of a message type, for a time."""
    lasts = _lasts(form)
    if lasts is None:
        raise HTTPException(400, _NO_TIME)
    return _set(parts, form, BreakerState.OPEN, lasts)


@router.post("/close")
def close_breaker(parts: Parts, form: SentForm) -> Response:
    """Let retries go again; without a time the breaker counts again at once."""
    return _set(parts, form, BreakerState.CLOSED, _lasts(form))


def _ask(request: Request, parts: PageParts, breaker: str, *, opens: bool) -> Response:
    """Ask before a breaker is opened, or closed, by hand."""
    key, found = _read(breaker), _snapshot(parts)
    concerned = found.count_of(find_causes_of(parts.db, key))
    known = [each for each in found.breakers.breakers if each.key == key]
    count = f"{plural(concerned, 'unresolved message')} {'goes' if concerned == 1 else 'go'} there"
    what = "wait, and others go on. What somebody names by its id still goes."
    lead = f"{count}: their retries {what}" if opens else f"{count}: their retries go again."
    return show(
        request,
        "breaker.html",
        current=_HERE,
        key=key,
        kind=KINDS[key.per],
        opens=opens,
        title="Open this breaker?" if opens else "Close this breaker?",
        lead=lead if concerned else "No unresolved message goes there now.",
        why=next((why_waiting(each, found.breakers.at) for each in known), None),
    )


def _snapshot(parts: PageParts) -> Snapshot:
    """Return what is counted, with the breakers of now: what somebody has set must show at once."""
    return replace(parts.counts.snapshot(), breakers=show_breakers(parts.db))


def _set(parts: PageParts, form: Form, state: BreakerState, lasts: timedelta | None) -> Response:
    key = _read(next(iter(form.values("breaker")), ""))
    done = parts.gateway.set_breaker(key, state, lasts, form.requested_by, form.why)
    what = "breaker-closed" if state is BreakerState.CLOSED else "breaker-opened"
    return see_other(f"{_HERE}?done={what if done.known else 'breaker-unseen'}")


def _read(text: str) -> BreakerKey:
    key = parse_key(text)
    if not has_name(key):
        raise HTTPException(400, NO_KEY)
    return key


def _lasts(form: Form) -> timedelta | None:
    """Return for how long; None if the form does not say. Raises HTTPException."""
    text, unit = form.text("for"), _UNITS.get(form.text("unit"))
    if not text:
        return None
    if unit is None or not (text.isascii() and text.isdecimal()):
        raise HTTPException(400, _NO_TIME)
    lasts = int(text[:6]) * unit
    if not SHORTEST_HAND <= lasts <= LONGEST_HAND:
        raise HTTPException(400, _NO_TIME)
    return lasts
