"""How long a broker that is there has left a question without an answer."""

from collections.abc import Callable
from time import monotonic

PATIENCE = 10.0
"""Seconds after which a queue that says nothing is taken to be silent."""
DELETION_PATIENCE = 20.0
"""Seconds for a deletion: where a queue has no leader the broker itself waits for one, for 5 s."""


class Silence:
    """The silence of a queue, which counts only while the broker itself is heard.

    A broker that lives sends something twice in a heartbeat. One that is frozen, or out of reach,
    sends nothing: that is a connection to be lost, and says nothing about a queue. So the count
    begins anew after each gap in what is heard, also one that is due to us.
    """

    def __init__(self, heartbeat: float, clock: Callable[[], float] = monotonic) -> None:
        """`heartbeat` is in seconds, like what the clock says."""
        self._heartbeat = heartbeat
        self._clock = clock
        self._heard = clock()
        self._since = self._heard

    def begin(self) -> None:
        """Wait for an answer from now on."""
        self._since = self._clock()

    def hear(self) -> None:
        """Note that something has come from the broker, whatever it was."""
        now = self._clock()
        if now - self._heard > self._heartbeat:
            self._since = now
        self._heard = now

    @property
    def seconds(self) -> float:
        """How long the answer has been due while the broker was heard; 0 while it is not."""
        now = self._clock()
        return now - self._since if now - self._heard <= self._heartbeat else 0.0
