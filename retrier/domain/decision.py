"""Decisions: what happens next to an unresolved message."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Manual:
    """A person decides what happens. `why` is set if the failure does not explain the state."""

    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryAt:
    """The message is retried automatically at this time. Nothing decides so yet."""

    at: datetime
    why: str
    policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dead:
    """The message is given up: neither automatic nor bulk retries take it. Nothing decides so yet."""

    why: str
    policy: str | None = None


Decision = Manual | RetryAt | Dead
