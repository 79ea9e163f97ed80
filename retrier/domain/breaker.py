"""Breakers: when a destination that fails gets no more retries, and when it gets them again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

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
class Hand:
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
    hand: Hand | None = None

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
class Evidence:
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
