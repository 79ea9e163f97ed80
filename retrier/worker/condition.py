"""What a worker waits for: said once when it changes, and shown by the health check."""

import logging
from threading import Lock

LOG = logging.getLogger("retrier.worker")


class Condition:
    """Either the worker takes messages, or `why` says what it waits for."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._why: str | None = "it has not begun yet"
        self._said: str | None = None

    @property
    def why(self) -> str | None:
        """What is waited for; None while messages are taken."""
        with self._lock:
            return self._why

    def wait_for(self, why: str) -> None:
        """Note that nothing is taken because of this; say it if it was not said before."""
        with self._lock:
            is_new, self._said = why != self._said, why
            self._why = why
        if is_new:
            fields = {"event": "worker.waiting", "reason": why}
            LOG.warning("nothing is taken: %s", why, extra=fields)

    def take(self, queues: str) -> None:
        """Note that messages are taken."""
        with self._lock:
            waited, self._why, self._said = self._why is not None, None, None
        if waited:
            LOG.info("messages are taken from %s", queues, extra={"event": "worker.taking"})
