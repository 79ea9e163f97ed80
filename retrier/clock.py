"""The clock, passed as an argument so that tests can replace it."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Gives the time of day and measures durations."""

    def now(self) -> datetime:
        """Return the time of day, in UTC, with its offset."""
        ...

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start; never goes back."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """Return the time of day, in UTC."""
        return datetime.now(UTC)  # noqa: TID251 - the one place that may call it

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start; never goes back."""
        return time.monotonic()
