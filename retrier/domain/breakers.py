"""Breakers: when a destination that fails gets no more retries, and when it gets them again."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import assert_never

from retrier.domain.values import dataclass

LONGEST_COOLDOWN = timedelta(minutes=15)
"""A cooldown is doubled up to this."""
LONGEST_NAME = 500
"""Characters: a longer message type has no breaker."""
SHORTEST_HAND, LONGEST_HAND = timedelta(seconds=1), timedelta(days=7)
"""How long a person's word about a breaker may hold."""
NO_KEY = f"A breaker is for a queue or a message type: 1 to {LONGEST_NAME} characters."


class Per(StrEnum):
    """What a breaker is for: the queue a retry really goes to, or the type of the message."""

    DESTINATION = "destination"
    MESSAGE_TYPE = "message_type"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class BreakerKey:
    """What one breaker is for."""

    per: Per
    name: str

    def __str__(self) -> str:
        """Return the key as people write it: a queue by its name, a type behind `message_type:`."""
        plain = self.per is Per.DESTINATION and not self.name.startswith(_PREFIXES)
        return self.name if plain else f"{self.per}:{self.name}"


_PREFIXES = tuple(f"{per}:" for per in Per)


def parse_key(text: str) -> BreakerKey:
    """Return the key that a text names; the opposite of `str`."""
    for per in Per:
        if text.startswith(f"{per}:"):
            return BreakerKey(per=per, name=text.removeprefix(f"{per}:"))
    return BreakerKey(per=Per.DESTINATION, name=text)


def has_name(key: BreakerKey) -> bool:
    """Say whether something can have this name: else NO_KEY says why not."""
    return 1 <= len(key.name) <= LONGEST_NAME and "\0" not in key.name


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerTerms:
    """When a breaker opens: at least `threshold` per cent failed, of at least `least`.

    `window` is a time, or a number: the last so many outcomes, for a destination whose consumers
    confirm. After `cooldown` one message tries it.
    """

    per: Per = Per.DESTINATION
    window: timedelta | int = timedelta(minutes=2)
    threshold: int = 50
    least: int = 10
    cooldown: timedelta = timedelta(seconds=60)

    @property
    def time(self) -> timedelta:
        """Return how far back what was sent counts; also where outcomes are counted at first."""
        return _WITHOUT_CONFIRMATIONS if isinstance(self.window, int) else self.window

    @property
    def last(self) -> int | None:
        """Return how many outcomes count; None if a time is looked at."""
        return self.window if isinstance(self.window, int) else None


_WITHOUT_CONFIRMATIONS = timedelta(minutes=2)
"""What counts instead of the last outcomes while nothing was ever confirmed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerRules:
    """The terms of the policies' rules that name a breaker, and of everything else."""

    default: BreakerTerms | None = None
    rules: Mapping[str, BreakerTerms] = field(default_factory=dict)

    @property
    def any(self) -> bool:
        """Whether any breaker is configured."""
        return self.default is not None or bool(self.rules)

    @property
    def all_terms(self) -> Mapping[str, BreakerTerms]:
        """Return the terms of all rules that have a breaker, that of everything else included."""
        default = {} if self.default is None else {DEFAULT_RULE: self.default}
        return {**default, **self.rules}

    def rule_of(self, policy: str | None) -> str | None:
        """Return the rule whose breaker counts a message, by the policy that decided about it.

        DEFAULT_RULE for that of everything else; None if the message has no breaker.
        """
        rule = (policy or "").rpartition("@")[0]
        if rule in self.rules:
            return rule
        return None if self.default is None else DEFAULT_RULE

    def terms_of(self, rule: str | None) -> BreakerTerms | None:
        """Return the terms of a rule; None if it has no breaker, or not any more."""
        if rule == DEFAULT_RULE:
            return self.default
        return None if rule is None else self.rules.get(rule)

    def first(self, one: str | None, other: str) -> str:
        """Return which of two rules decides about a breaker: the one that comes first."""
        order = [*self.rules, *([DEFAULT_RULE] if self.default is not None else [])]
        return min((rule for rule in (one, other) if rule in order), key=order.index, default=other)


DEFAULT_RULE = ""
"""Stands for the breaker of everything that no rule has a breaker for."""


class BreakerState(StrEnum):
    """Whether retries go.

    CLOSED     all go.
    OPEN       none goes; after the cooldown one tries it.
    HALF_OPEN  one goes, and what becomes of it decides.
    """

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualState:
    """A person's word about a breaker: it wins until it ends."""

    state: BreakerState
    until: datetime
    who: str
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The one message that tries a half-open breaker."""

    number: int
    retry_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """A breaker as stored.

    What was sent before `changed_at` does not count. `opened_at` is since when it has not been
    closed, `due_at` when it is to be looked at again. `failed` of `sent` was why it opened.
    `confirms`: at least one retry was ever confirmed.
    """

    breaker_id: int
    key: BreakerKey
    state: BreakerState
    changed_at: datetime
    rule: str | None = None
    opened_at: datetime | None = None
    due_at: datetime | None = None
    cooldown: timedelta = timedelta(0)
    sent: int = 0
    failed: int = 0
    confirms: bool = False
    trial: Trial | None = None
    hand: ManualState | None = None

    @property
    def held_since(self) -> datetime:
        """Since when its messages have waited; by hand, since that was said."""
        return self.opened_at or self.changed_at

    def state_at(self, now: datetime) -> BreakerState:
        """Return what holds now: a person's word before all."""
        if self.hand is not None and now < self.hand.until:
            return self.hand.state
        return self.state


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerEvidence:
    """What became of what was sent in the window: `failed` was returned, refused or came back.

    `outcomes` are the newest ones, the last at the end: True if it failed.
    """

    sent: int = 0
    failed: int = 0
    outcomes: tuple[bool, ...] = ()
    confirmed: bool = False


class TrialEnd(StrEnum):
    """What became of the message that tries a breaker.

    NEVER_SENT  it was archived, skipped or taken back before it was sent.
    UNDERWAY    it is not recorded as sent yet.
    SENT        it was sent, and nothing more is known.
    """

    NEVER_SENT = "never_sent"
    UNDERWAY = "underway"
    SENT = "sent"
    CONFIRMED = "confirmed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSeen:
    """What is known of the trial, and when it was recorded as sent."""

    end: TrialEnd
    sent_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SentCounts:
    """How many were sent, and what became of them; `outcomes` has a letter for each, in order.

    c: confirmed; f: failed, which is returned, refused or came back.
    """

    sent: int = 0
    returned: int = 0
    came_back: int = 0
    confirmed: int = 0
    outcomes: str = ""

    def __add__(self, other: "SentCounts") -> "SentCounts":
        """Return both as one."""
        return SentCounts(
            sent=self.sent + other.sent,
            returned=self.returned + other.returned,
            came_back=self.came_back + other.came_back,
            confirmed=self.confirmed + other.confirmed,
            outcomes=self.outcomes + other.outcomes,
        )


SENT = SentCounts(sent=1)
RETURNED = SentCounts(sent=1, returned=1, outcomes="f")
CAME_BACK = SentCounts(came_back=1, outcomes="f")
CONFIRMED = SentCounts(confirmed=1, outcomes="c")

Moment = tuple[int, datetime]
"""A breaker, and when a retry was sent that it counts."""


def add_up(counted: Iterable[tuple[Moment, SentCounts]]) -> Mapping[Moment, SentCounts]:
    """Add up what has the same moment."""
    sums: dict[Moment, SentCounts] = {}
    for moment, each in counted:
        sums[moment] = sums.get(moment, SentCounts()) + each
    return sums


def begin_of(sent_at: datetime, grain: timedelta, changed_at: datetime) -> datetime | None:
    """Return the begin of the part of time in which something counts that was sent then.

    None if it does not count: it was sent before the breaker changed. No part begins before that.
    """
    if sent_at < changed_at:
        return None
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return max(changed_at, epoch + (sent_at - epoch) // grain * grain)


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
    evidence: BreakerEvidence,
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


def _judge_closed(
    breaker: Breaker, terms: BreakerTerms, evidence: BreakerEvidence
) -> Verdict | None:
    if evidence.confirmed and not breaker.confirms:
        return NoteConfirms()
    sent, failed = _share(breaker, terms, evidence)
    if sent < max(1, terms.least) or failed * 100 < terms.threshold * sent:
        return None
    return Open(sent=sent, failed=failed, cooldown=terms.cooldown)


def _share(breaker: Breaker, terms: BreakerTerms, evidence: BreakerEvidence) -> tuple[int, int]:
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
