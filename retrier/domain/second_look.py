"""The second look: what a time makes final is done only if a look long before agrees that it is due."""

from collections import deque
from datetime import datetime, timedelta


class SecondLook:
    """Remembers what the database's clock said, and when, by a clock that nobody sets.

    A clock that is ahead for a moment would delete for good what is young. So nothing is deleted
    or presumed for its age before two looks agree, `apart` by the monotonic clock of this process.
    """

    def __init__(self, apart: timedelta) -> None:
        self._apart = apart.total_seconds()
        self._looks: deque[tuple[float, datetime]] = deque()
        self._agreed: datetime | None = None

    @property
    def agreed(self) -> datetime | None:
        """The latest time of which all looks agree that it has passed.

        None until the first look is that long ago: nothing is due for anybody.
        """
        return self._agreed

    def note(self, seconds: float, time: datetime) -> None:
        """Take in a look: the database's time, and then the monotonic seconds of this process.

        In this order a look seems younger than it is, and never older.
        """
        looks = self._looks
        looks.append((seconds, time))
        while len(looks) > 1 and looks[1][0] <= seconds - self._apart:
            looks.popleft()
        # The lowest of all since then: a clock that was right for one look in between is believed.
        is_old = looks[0][0] <= seconds - self._apart
        self._agreed = min(each for _, each in looks) if is_old else None
