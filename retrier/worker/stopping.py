"""How a worker ends, and what has to go on while its own thread handles a message."""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event

from retrier.clock import Clock
from retrier.errors import BrokerUnavailable
from retrier.worker.line import Line
from retrier.worker.log import Condition

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Exits:
    """How the process is ended: as after a crash, or well.

    `leave` is None if the process is not only a worker: then it is not ended.
    """

    crash: Callable[[str], object]
    leave: Callable[[], object] | None = None


class Relief:
    """Heartbeats, deadlines, and the end after an order to stop."""

    def __init__(
        self, condition: Condition, exits: Exits, clock: Clock, *, stop_timeout: float
    ) -> None:
        self._condition = condition
        self._exits = exits
        self.farewell = Farewell(stop_timeout, clock)
        self.line: Line | None = None
        self.stop = Event()
        self.check_deadlines: Callable[[], object] = lambda: None
        self.let_go: Callable[[], object] = lambda: None
        """Gives everything in hand back to the broker."""

    def relieve(self) -> None:
        """Keep up. Called by another thread, while the worker's own one handles a message."""
        line = self.line
        try:
            if line is not None:
                line.keep_alive()
        except BrokerUnavailable as error:
            self._condition.wait_for(str(error))
            if line is not None:
                line.lose(error)
        self.check_deadlines()
        if self.stop.is_set():
            self.farewell.begin()
        if self.farewell.overdue and self._exits.leave is not None:
            try:
                self.let_go()
            finally:
                self._exits.leave()
