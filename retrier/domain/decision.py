"""Decisions: what becomes of a message that is unresolved, each with its reason."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Manual:
    """A person decides. `why` says what happened to it, where that is not plain from its failure."""

    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryAt:
    """It is retried by itself at that time."""

    at: datetime
    why: str
    policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dead:
    """It is given up: nothing retries it by itself, and bulk retries leave it out."""

    why: str
    policy: str | None = None


Decision = Manual | RetryAt | Dead
