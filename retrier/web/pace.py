"""How often the counts of the page are made: so that they cost a tenth of a thread at most."""

from dataclasses import dataclass

TIMES_ITS_COST = 20
"""A whole count and a look at what is new may each take a twentieth of a thread."""
LEAST = 1.0
"""Seconds between two counts at least."""
WATCHED_FOR = 60.0
"""Seconds after the last look of a person in which somebody counts as looking."""
UNWATCHED = 30.0
"""Seconds between two counts at least while nobody looks; they cost a tenth of that time's share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """When something was done last, and what it cost, in seconds of our own clock."""

    ended: float = 0.0
    cost: float = 0.0

    def is_due(self, now: float, *, watched: bool) -> bool:
        """Say whether it may be done again."""
        times = TIMES_ITS_COST if watched else TIMES_ITS_COST * 10
        return now >= self.ended + max(LEAST if watched else UNWATCHED, times * self.cost)
