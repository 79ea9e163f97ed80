"""Whether a window waits for our own queue, and that is silent."""

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
        connection.silence.begin()

    def check(self) -> None:
        """Raise QueueSilent if it is our own queue that has confirmed nothing for too long."""
        left, self._left = self._left, self._window.left
        if self._left < left or self._connection.blocked:
            self._connection.silence.begin()
        too_long = self._connection.silence.seconds >= PATIENCE
        if too_long and self._own_queue in self._window.open_queues:
            raise QueueSilent(self._own_queue, NOTHING)
