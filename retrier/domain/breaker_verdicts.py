"""What a breaker does next: a pure decision, from its state, what was counted, and the time."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import assert_never

from retrier.domain.breaker import (
    LONGEST_COOLDOWN,
    Breaker,
    BreakerState,
    BreakerTerms,
    Evidence,
    TrialEnd,
    TrialSeen,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Retries stop: so many failed of so many sent; after the cooldown one tries it."""

    sent: int
    failed: int
    cooldown: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class TryOne:
    """One message may go, and decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookAt:
    """Nothing is known of the trial yet: look again at that time."""

    due: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """Retries go again."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndHand:
    """A person's word has ended: what was counted decides again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteConfirms:
    """A retry was confirmed for the first time: from now on its last outcomes may be looked at."""


Verdict = Open | TryOne | LookAt | Close | EndHand | NoteConfirms

_FEW = 2
"""Times as many as a breaker needs to decide are few."""
_CONFIRMED = "the message that tried it was confirmed"
_QUIET = "the message that tried it did not come back"
_NOT_CONFIGURED = "no breaker is configured for it any more"


def judge(
    breaker: Breaker,
    terms: BreakerTerms | None,
    evidence: Evidence,
    trial: TrialSeen | None,
    now: datetime,
) -> Verdict | None:
    """Return what becomes of a breaker; None if it stays as it is.

    `terms` are those in force, None if none are. `trial` is what became of its trial, if it has one.
    """
    if breaker.hand is not None:
        return EndHand() if now >= breaker.hand.until else None
    if terms is None:
        return None if breaker.state is BreakerState.CLOSED else Close(why=_NOT_CONFIGURED)
    match breaker.state:
        case BreakerState.CLOSED:
            return _judge_closed(breaker, terms, evidence)
        case BreakerState.OPEN:
            return TryOne() if _is_over(breaker, now) else None
        case BreakerState.HALF_OPEN:
            return None if trial is None else _judge_trial(breaker, terms, trial, now)
        case _ as never:
            assert_never(never)


def comes_back(terms: BreakerTerms | None, sent: int, failed: int, confirmed: int) -> bool:
    """Say whether most of what was sent comes back, as far as it is known of a closed breaker.

    Of a few the outcomes that are there decide: in an outage they come late, and until then the
    share of what was sent is too low. Of many that share does: consumers may confirm nothing.
    """
    if terms is None or failed <= confirmed:
        return False
    return sent <= _FEW * terms.least or failed * 100 >= terms.threshold * sent


def _is_over(breaker: Breaker, now: datetime) -> bool:
    """Whether the cooldown is over; also if the database's clock was set back meanwhile."""
    return breaker.due_at is None or now >= breaker.due_at or now < breaker.changed_at


def _judge_closed(breaker: Breaker, terms: BreakerTerms, evidence: Evidence) -> Verdict | None:
    if evidence.confirmed and not breaker.confirms:
        return NoteConfirms()
    sent, failed = _share(breaker, terms, evidence)
    if sent < max(1, terms.least) or failed * 100 < terms.threshold * sent:
        return None
    return Open(sent=sent, failed=failed, cooldown=terms.cooldown)


def _share(breaker: Breaker, terms: BreakerTerms, evidence: Evidence) -> tuple[int, int]:
    """Return how many count, and how many of them failed.

    Of what was sent. The last outcomes are looked at only if consumers confirm: else there would be
    nothing but failures among them.
    """
    if terms.last is None or not breaker.confirms:
        return evidence.sent, evidence.failed
    last = evidence.outcomes[-terms.last :]
    return len(last), sum(last)


def _judge_trial(
    breaker: Breaker, terms: BreakerTerms, trial: TrialSeen, now: datetime
) -> Verdict | None:
    match trial.end:
        case TrialEnd.CONFIRMED:
            return Close(why=_CONFIRMED)
        case TrialEnd.FAILED:
            return Open(sent=1, failed=1, cooldown=_grown(breaker.cooldown, terms.cooldown))
        case TrialEnd.NEVER_SENT:
            return TryOne()
        case TrialEnd.UNDERWAY:
            return None
        case TrialEnd.SENT:
            return _wait_for(breaker, trial.sent_at or now, now)
        case _ as never:
            assert_never(never)


def _wait_for(breaker: Breaker, sent_at: datetime, now: datetime) -> Verdict | None:
    """Close when a cooldown has passed without the trial coming back."""
    due = sent_at + breaker.cooldown
    if now >= due or now < sent_at:
        return Close(why=_QUIET)
    return None if breaker.due_at == due else LookAt(due=due)


def _grown(cooldown: timedelta, first: timedelta) -> timedelta:
    """Double a cooldown, up to 15 minutes, or up to what was configured if that is longer."""
    # Compared before it is doubled: a configured cooldown may be as long as a time can be.
    most = max(LONGEST_COOLDOWN, first)
    return most if cooldown > most / 2 else max(first, cooldown * 2)


def follow(breaker: Breaker, verdict: Verdict, now: datetime) -> Breaker:
    """Return the breaker after a verdict."""
    match verdict:
        case Open(sent=sent, failed=failed, cooldown=cooldown):
            again = breaker.state is not BreakerState.CLOSED
            return replace(
                breaker,
                state=BreakerState.OPEN,
                changed_at=now,
                opened_at=breaker.opened_at or now,
                due_at=now + cooldown,
                cooldown=cooldown,
                # Of one that opens again the words still say why it opened.
                sent=breaker.sent if again else sent,
                failed=breaker.failed if again else failed,
                trial=None,
            )
        case TryOne():
            half = BreakerState.HALF_OPEN
            return replace(breaker, state=half, changed_at=now, due_at=None, trial=None)
        case LookAt(due=due):
            return replace(breaker, due_at=due)
        case Close():
            return closed(breaker, now)
        case EndHand():
            return replace(breaker, hand=None, changed_at=now)
        case NoteConfirms():
            return replace(breaker, confirms=True)
        case _ as never:
            assert_never(never)


def closed(breaker: Breaker, now: datetime) -> Breaker:
    """Return the breaker closed: from now on it counts anew."""
    return replace(
        breaker,
        state=BreakerState.CLOSED,
        changed_at=now,
        opened_at=None,
        due_at=None,
        sent=0,
        failed=0,
        trial=None,
        hand=None,
    )
