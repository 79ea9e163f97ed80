"""The time, as an argument that tests can replace."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time of day and measures durations."""

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
        return datetime.now(UTC)  # noqa: TID251 - the one place that may

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start; never goes back."""
        return time.monotonic()
