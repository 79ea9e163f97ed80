"""Events of breakers: turned by what was counted, and what they take out of a batch."""

from dataclasses import dataclass

from retrier.events.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerOpened(Event):
    """Retries to a destination, or of a message type, stop: too many failed."""

    name = "breaker.opened"
    breaker: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerHalfOpened(Event):
    """One message may try it."""

    name = "breaker.half_opened"
    breaker: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerClosed(Event):
    """Retries go again."""

    name = "breaker.closed"
    breaker: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerHandEnded(Event):
    """A person's word about a breaker has ended at its time."""

    name = "breaker.hand_ended"
    breaker: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimsHeldBack(Event):
    """Messages left their batch in Staging, because a breaker opened after it was cut."""

    name = "staging.held_back"
    batch_id: str
    operation_id: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerSet(Event):
    """A person has opened or closed a breaker."""

    name = "breaker.set"
    breaker: str
    words: str


BreakerEffect = (
    BreakerOpened | BreakerHalfOpened | BreakerClosed | BreakerHandEnded | ClaimsHeldBack
)
"""Each follows an effect that outlives a killed process: tests kill a process at each of them."""
