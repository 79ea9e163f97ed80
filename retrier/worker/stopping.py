"""The end of a worker that was told to stop."""

from retrier.clock import Clock

RELEASE_WITHIN = 5.0
"""Seconds that the broker has to take back what was not finished; then the process ends anyway."""


class Overdue(Exception):
    """The worker was told to stop, and the broker takes too long."""


class Farewell:
    """The time in which what was begun may be finished."""

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._seconds = seconds
        self._clock = clock
        self._until: float | None = None
        self._hurried: float | None = None

    def begin(self) -> None:
        """Note that the worker was told to stop."""
        if self._until is None:
            self._until = self._clock.monotonic() + self._seconds

    def hurry(self) -> None:
        """Note that it was told so again: handlers have no more time."""
        self._hurried = self._clock.monotonic()

    @property
    def begun(self) -> bool:
        """Whether it was told to stop."""
        return self._until is not None

    @property
    def overdue(self) -> bool:
        """Whether the time is over."""
        return self._is_over(0)

    @property
    def expired(self) -> bool:
        """Whether the time is over in which the broker could take back what was not finished."""
        return self._is_over(RELEASE_WITHIN)

    def _is_over(self, seconds_ago: float) -> bool:
        if self._until is None:
            return False
        until = self._until if self._hurried is None else min(self._until, self._hurried)
        return self._clock.monotonic() > until + seconds_ago
