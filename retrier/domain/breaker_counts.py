"""What is counted for breakers: what became of retries, by when they were sent."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """How many were sent, and what became of them; `outcomes` has a letter for each, in order.

    c: confirmed; f: failed, which is returned, refused or came back.
    """

    sent: int = 0
    returned: int = 0
    came_back: int = 0
    confirmed: int = 0
    outcomes: str = ""

    def __add__(self, other: "Counted") -> "Counted":
        """Return both as one."""
        return Counted(
            sent=self.sent + other.sent,
            returned=self.returned + other.returned,
            came_back=self.came_back + other.came_back,
            confirmed=self.confirmed + other.confirmed,
            outcomes=self.outcomes + other.outcomes,
        )


SENT = Counted(sent=1)
RETURNED = Counted(sent=1, returned=1, outcomes="f")
CAME_BACK = Counted(came_back=1, outcomes="f")
CONFIRMED = Counted(confirmed=1, outcomes="c")

Moment = tuple[int, datetime]
"""A breaker, and when a retry was sent that it counts."""


def add_up(counted: Iterable[tuple[Moment, Counted]]) -> Mapping[Moment, Counted]:
    """Add up what has the same moment."""
    sums: dict[Moment, Counted] = {}
    for moment, each in counted:
        sums[moment] = sums.get(moment, Counted()) + each
    return sums


def begin_of(sent_at: datetime, grain: timedelta, changed_at: datetime) -> datetime | None:
    """Return the begin of the part of time in which something counts that was sent then.

    None if it does not count: it was sent before the breaker changed. No part begins before that.
    """
    if sent_at < changed_at:
        return None
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return max(changed_at, epoch + (sent_at - epoch) // grain * grain)
