"""The end of a worker that was told to stop."""

from retrier.clock import Clock

FINISH_WITHIN = 20.0
"""Seconds that handlers have to finish after the worker was told to stop."""


class Overdue(Exception):
    """The worker was told to stop, and the broker takes too long."""


class Farewell:
    """The time in which what was begun may be finished."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: float | None = None

    def begin(self) -> None:
        """Note that the worker was told to stop."""
        if self._until is None:
            self._until = self._clock.monotonic() + FINISH_WITHIN

    @property
    def begun(self) -> bool:
        """Whether it was told to stop."""
        return self._until is not None

    @property
    def overdue(self) -> bool:
        """Whether the time is over."""
        return self._until is not None and self._clock.monotonic() > self._until
