"""Breakers: which destinations get no retries now; opened and closed by hand."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from fastapi import APIRouter, HTTPException, Request, Response

from retrier.domain.breakers import (
    LONGEST_HAND,
    NO_KEY,
    SHORTEST_HAND,
    BreakerKey,
    BreakerState,
    has_name,
    parse_key,
)
from retrier.store.queries.breaker_waits import find_causes_of, show_breakers
from retrier.web.forms import Form, SentForm
from retrier.web.parts import PageParts, Parts
from retrier.web.showing import see_other, show
from retrier.web.snapshot import Snapshot
from retrier.web.views.breakers import ask_hand, breaker_list

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
    view = breaker_list(_look(parts))
    return show(request, "breakers.html", view, current=_HERE)


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
    """Let retries go again; without a time the breaker counts anew at once."""
    return _set(parts, form, BreakerState.CLOSED, _lasts(form))


def _ask(request: Request, parts: PageParts, breaker: str, *, opens: bool) -> Response:
    key, found = _read(breaker), _look(parts)
    concerned = found.count_of(find_causes_of(parts.db, key))
    return show(
        request, "breaker.html", ask_hand(key, found, concerned, opens=opens), current=_HERE
    )


def _look(parts: PageParts) -> Snapshot:
    """Return what is counted, with the breakers of now: what somebody has set must show at once."""
    return replace(parts.counts.look(), breakers=show_breakers(parts.db))


def _set(parts: PageParts, form: Form, state: BreakerState, lasts: timedelta | None) -> Response:
    key = _read(next(iter(form.values("breaker")), ""))
    done = parts.gateway.set_breaker(key, state, lasts, form.requested_by, form.why)
    told = "breaker-closed" if state is BreakerState.CLOSED else "breaker-opened"
    return see_other(f"{_HERE}?done={told if done.known else 'breaker-unseen'}")


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
