"""Whose confirms a window waits for, and whether that queue is silent."""

from retrier.errors import QueueSilent
from retrier.transport.rabbitmq.connection import BrokerConnection
from retrier.transport.rabbitmq.silence import PATIENCE
from retrier.transport.rabbitmq.window import Window

NOTHING = f"it has confirmed nothing for {PATIENCE:g} s"


class AwaitedQueue:
    """Watches a window that is written while it is settled.

    A broker that confirms one message after the other is slow, and one under an alarm says so:
    neither is silent.
    """

    def __init__(self, connection: BrokerConnection, window: Window, own_queue: str | None) -> None:
        """`own_queue` is the one that is not waited for without end."""
        self._connection = connection
        self._window = window
        self._own_queue = own_queue
        self._left = window.left
        self._silent: str | None = None
        connection.silence.begin()

    def find_silent(self) -> str | None:
        """Return the queue that has confirmed nothing for too long, if there is one.

        Raises QueueSilent if it is our own.
        """
        left, self._left = self._left, self._window.left
        if self._left < left or self._connection.blocked:
            self._connection.silence.begin()
            self._silent = None
        if self._connection.silence.seconds >= PATIENCE:
            self._silent = self._window.awaited
        if self._silent is not None and self._silent == self._own_queue:
            raise QueueSilent(self._silent, NOTHING)
        return self._silent
