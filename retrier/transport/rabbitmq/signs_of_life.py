"""Until when the broker surely keeps a connection, and gives nothing that it sent there to others."""

from collections.abc import Callable
from math import inf
from time import monotonic

KEPT = 1.9
"""Heartbeats without a sign of life for which a connection is surely kept: RabbitMQ waits for two."""


class SignsOfLife:
    """What the broker has surely heard of us, and when.

    What it sent proves nothing: that may have lain in the socket while this process was frozen,
    many batches of it, ahead of the news that the connection was closed. What we send counts if it
    was sent while the connection was surely kept. After a gap only an answer does. So wherever a
    process is frozen, it finds the gap in what it sends next, or is not sure right away, and takes
    nothing for its own from then on.
    """

    def __init__(self, heartbeat: float, clock: Callable[[], float] = monotonic) -> None:
        """`heartbeat` is in seconds, 0 if there is none; `clock` returns seconds."""
        self._longest = KEPT * heartbeat or inf
        self._clock = clock
        self._last = clock()

    def sent(self, began: float) -> None:
        """Note that something was sent since `began`. Call it after that: the sending may last."""
        if self.suffice:
            self._last = began

    def answered(self, asked: float) -> None:
        """Note an answer: who answers had not given us up when it was asked."""
        self._last = max(self._last, asked)

    @property
    def suffice(self) -> bool:
        """Whether the broker surely keeps the connection, as far as our silence can end it."""
        return self._clock() - self._last <= self._longest
