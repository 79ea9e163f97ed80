"""What people are told about a breaker."""

from collections.abc import Sequence
from datetime import UTC, datetime

from retrier.domain.breaker import Breaker, BreakerState, Per

_MOST_TOLD = 5
"""Breakers whose reasons are told one by one."""
_WAIT = "its messages wait, others go on"


def why_waiting(breaker: Breaker, now: datetime) -> str | None:
    """Say why messages wait for a breaker; None if they do not."""
    state = breaker.state_at(now)
    if state is BreakerState.CLOSED:
        return None
    if breaker.hand is not None and breaker.hand.state is state and now < breaker.hand.until:
        return _held_by_hand(breaker, now)
    failed = f"({breaker.failed:,} of {breaker.sent:,} failed)"
    since = show_clock(breaker.opened_at or breaker.changed_at, now)
    said = f"{_name(breaker)} {_fails(breaker)} since {since} {failed}"
    if state is BreakerState.HALF_OPEN:
        return f"{said}: one message tries it, the others wait"
    return f"{said}: {_WAIT}"


def why_all_wait(breakers: Sequence[Breaker], now: datetime) -> str | None:
    """Say why messages wait for these breakers, of many for the first; None if none waits."""
    told = [each for each in breakers if each.state_at(now) is not BreakerState.CLOSED]
    reasons = [why for each in told[:_MOST_TOLD] if (why := why_waiting(each, now)) is not None]
    if len(told) > _MOST_TOLD:
        reasons.append(f"and {len(told) - _MOST_TOLD:,} more")
    return "; ".join(reasons) or None


def why_closed(breaker: Breaker, why: str) -> str:
    """Say that retries go again, and why."""
    return f"{_name(breaker)} gets its retries again: {why}"


def _held_by_hand(breaker: Breaker, now: datetime) -> str:
    hand = breaker.hand
    if hand is None:
        return ""
    reason = f' ("{hand.why}")' if hand.why else ""
    until = show_clock(hand.until, now)
    return f"{_name(breaker)} is held by {hand.who} until {until}{reason}: {_WAIT}"


def _name(breaker: Breaker) -> str:
    return f"`{breaker.key.name}`"


def _fails(breaker: Breaker) -> str:
    """Only of a queue whose every retry failed can be said that nothing is answered."""
    silent = breaker.key.per is Per.DESTINATION and breaker.failed >= breaker.sent
    return "answers nothing" if silent else "fails"


def show_clock(moment: datetime, now: datetime) -> str:
    """Return the time of day with its zone, UTC, and with the date unless it is today's."""
    moment, now = moment.astimezone(UTC), now.astimezone(UTC)
    return moment.strftime("%H:%M UTC" if moment.date() == now.date() else "%Y-%m-%d %H:%M UTC")
