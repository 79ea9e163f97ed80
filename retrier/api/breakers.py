"""Breakers: which destinations get no retries, opened and closed by hand."""

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import HTTPException, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from retrier.api.answers import Answer, Routes, answer, present, time, told
from retrier.api.parts import Parts
from retrier.api.requests import (
    WITHOUT_NUL,
    Duration,
    InContext,
    PageQuery,
    RequestContext,
    page_headers,
)
from retrier.api.shapes import service as shapes
from retrier.domain.breakers import (
    DEFAULT_RULE,
    LONGEST_HAND,
    NO_KEY,
    SHORTEST_HAND,
    Breaker,
    BreakerKey,
    BreakerState,
    ManualState,
    has_name,
    parse_key,
    why_waiting,
)
from retrier.store.breaker_lists import list_breakers


def breaker(shown: Breaker, at: datetime) -> shapes.Breaker:
    """Show a breaker as it is at this time; `waits_because` if messages wait for it."""
    hand = shown.hand if shown.hand is not None and at < shown.hand.until else None
    view: shapes.Breaker = {
        "key": str(shown.key),
        "per": shown.key.per,
        "name": shown.key.name,
        "state": shown.state_at(at),
        "waits_because": why_waiting(shown, at),
        "since": time(shown.opened_at),
        "changed_at": time(shown.changed_at),
        "due_at": time(shown.due_at),
        "failed": shown.failed if shown.opened_at else None,
        "sent": shown.sent if shown.opened_at else None,
        "cooldown_seconds": shown.cooldown.total_seconds() if shown.opened_at else None,
        "rule": _rule(shown.rule),
        "by_hand": None if hand is None else _by_hand(hand),
    }
    return present(view)


def _by_hand(hand: ManualState) -> shapes.SetByHand:
    view: shapes.SetByHand = {
        "state": hand.state,
        "until": time(hand.until),
        "who": hand.who,
        "why": hand.why,
    }
    return present(view)


def _rule(rule: str | None) -> str | None:
    """Name the rule whose terms count; `breakers` is the section of the settings."""
    return "breakers" if rule == DEFAULT_RULE else rule


router = Routes(prefix="/api/breakers", tags=["breakers"])

_LONGEST_WHY = 1000


def _check_time(value: timedelta) -> timedelta:
    if not SHORTEST_HAND <= value <= LONGEST_HAND:
        raise PydanticCustomError("hand_range", "It is held by hand for 1s to 7d.")
    return value


HandTime = Annotated[Duration, AfterValidator(_check_time)]
Why = Annotated[str, Field(max_length=_LONGEST_WHY), WITHOUT_NUL] | None


class Opening(BaseModel):
    """What opening takes: how long it stays so, and why."""

    model_config = ConfigDict(extra="forbid")

    lasts: Annotated[HandTime, Field(alias="for", json_schema_extra={"default": "1h"})] = timedelta(
        hours=1
    )
    why: Why = None


class Closing(BaseModel):
    """What closing takes; without a time the breaker counts anew at once, and may open again."""

    model_config = ConfigDict(extra="forbid")

    lasts: Annotated[HandTime | None, Field(alias="for")] = None
    why: Why = None


@router.get("")
def get_breakers(request: Request, parts: Parts, page: PageQuery) -> Answer[list[shapes.Breaker]]:
    """List the breakers, those that are not closed first."""
    found, at = list_breakers(parts.db)
    items = [breaker(each, at) for each in found[page.offset : page.offset + page.size]]
    return answer(request, items, page_headers(request, page, len(found)))


@router.post("/{key:path}/open")
def open_breaker(
    key: str, context: InContext, body: Opening | None = None
) -> Answer[shapes.BreakerSet]:
    """Stop retries to a queue, or of a message type, for a time; named messages still go."""
    asked = body or Opening()
    return told(_set(context, key, BreakerState.OPEN, asked.lasts, asked.why))


@router.post("/{key:path}/close")
def close_breaker(
    key: str, context: InContext, body: Closing | None = None
) -> Answer[shapes.BreakerSet]:
    """Let retries go again."""
    asked = body or Closing()
    return told(_set(context, key, BreakerState.CLOSED, asked.lasts, asked.why))


def _set(
    context: RequestContext,
    key: str,
    state: BreakerState,
    lasts: timedelta | None,
    why: str | None,
) -> shapes.BreakerSet:
    done = context.gateway.set_breaker(_read(key), state, lasts, context.requested_by, why)
    return {**breaker(done.breaker, done.at), "never_seen": not done.known}


def _read(text: str) -> BreakerKey:
    key = parse_key(text)
    if not has_name(key):
        raise HTTPException(400, NO_KEY)
    return key
