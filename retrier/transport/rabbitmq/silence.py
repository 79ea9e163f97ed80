"""For how long a queue has not answered, although the broker is heard (decision 0018)."""

from collections.abc import Callable
from time import monotonic

ANSWER_TIMEOUT = 10.0
"""Seconds after which a queue that does not answer counts as silent."""
DELETION_TIMEOUT = 20.0
"""Seconds for a deletion: if a queue has no leader, the broker waits 5 s for one first."""


class Silence:
    """The silence of a queue, counted only while the broker itself is heard.

    A live broker sends something twice per heartbeat. A broker that is frozen or unreachable sends
    nothing: its connection will be lost, and the queue is not to blame. So the count restarts after
    each gap in what is received, also if this process was frozen and caused the gap.
    """

    def __init__(self, heartbeat: float, clock: Callable[[], float] = monotonic) -> None:
        """`heartbeat` is in seconds, and so is what `clock` returns."""
        self._heartbeat = heartbeat
        self._clock = clock
        self._heard = clock()
        self._since = self._heard

    def begin(self) -> None:
        """Start the count: an answer is due from now on."""
        self._since = self._clock()

    def hear(self) -> None:
        """Note that something was received from the broker."""
        now = self._clock()
        if now - self._heard > self._heartbeat:
            self._since = now
        self._heard = now

    @property
    def seconds(self) -> float:
        """For how long the answer has been due while the broker was heard; 0 if it is not heard."""
        now = self._clock()
        return now - self._since if now - self._heard <= self._heartbeat else 0.0
