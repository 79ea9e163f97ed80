"""The schedule: messages that are retried by themselves, each at its time."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How many messages are scheduled, and when the first of them is due that nobody has claimed.

    `next_at` is in the past if it is due and not sent yet: the standing operation is paused, or
    others go first, or something holds it: `held` says what.
    """

    scheduled: int
    next_at: datetime | None
    held: str | None = None
