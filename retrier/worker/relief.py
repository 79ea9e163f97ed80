"""What has to go on while the worker's own thread handles a message, and how a worker ends."""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event

from retrier.clock import Clock
from retrier.errors import BrokerUnavailable
from retrier.worker.condition import Condition
from retrier.worker.line import Line
from retrier.worker.stopping import Farewell


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
