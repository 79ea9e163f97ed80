"""A consumer's hold on the messages it was handed: kept alive by a thread of its process."""

from contextlib import suppress
from threading import Event, Thread
from time import monotonic

from retrier.errors import BrokerUnavailable
from retrier.transport.embedded.queues_db import QueuesDb
from retrier.transport.embedded.rows import Held, QueueGone

LEASE = 30.0
"""Seconds after which a holder that may be dead or alive loses its messages."""
SURE = 0.9
"""The part of a lease for which a holder relies on its last renewal."""
WATCH_EVERY = 0.25
FAREWELL = 1.0


class Hold:
    """A holder's row, and the thread that renews its lease, however long a handler takes."""

    def __init__(self, db: QueuesDb, lease: float = LEASE) -> None:
        """Add the holder's row; `lease` is in seconds. Raises BrokerUnavailable."""
        self._db = db
        self._lease = lease
        self._stop = Event()
        self._watched = float("-inf")
        self._kept_at = monotonic()
        self.id = db.enter(lease)
        Thread(target=self._keep_renewing, name="embedded broker lease", daemon=True).start()

    def take(self, name: str, limit: int, queue_id: int | None = None) -> list[Held]:
        """Take up to `limit` messages off a queue, without waiting.

        With `queue_id`, a queue that was deleted and declared again counts as gone. Raises
        QueueGone, HoldLost, BrokerUnavailable.
        """
        self._watch()
        queue = self._db.look(name)
        if queue is None or queue_id not in (None, queue.id):
            raise QueueGone(f"the embedded broker {self._db.place}: queue {name!r} was deleted")
        if not queue.has_ready or queue.active not in (None, self.id):
            return []
        return self._db.claim(queue, self.id, limit)

    def step_down(self, name: str) -> None:
        """Let another consumer be the active one of a queue. Raises BrokerUnavailable."""
        queue = self._db.look(name)
        if queue is not None and queue.active == self.id:
            self._db.step_down(queue)

    @property
    def is_sure(self) -> bool:
        """Whether the lease cannot have run out yet; nobody is asked, so nothing is waited for."""
        return monotonic() - self._kept_at <= SURE * self._lease

    def is_kept(self) -> bool:
        """Renew the lease; False if another process has ended it. Raises BrokerUnavailable."""
        return self._renew(FAREWELL)

    def close(self) -> None:
        """Give everything back; never raises, and waits some seconds at most for other writers."""
        self._stop.set()
        # If this fails, the messages are ready again once the lease has run out.
        with suppress(BrokerUnavailable):
            self._db.leave(self.id, FAREWELL)

    def _watch(self) -> None:
        """Remove dead holders from time to time: only then is what they held ready again."""
        now = monotonic()
        if now - self._watched < WATCH_EVERY:
            return
        self._watched = now
        if self._db.anyone_gone():
            self._db.reap()

    def _keep_renewing(self) -> None:
        kept = True
        while kept and not self._stop.wait(self._lease / 3):
            with suppress(BrokerUnavailable):
                kept = self._renew(self._lease / 6)

    def _renew(self, timeout: float) -> bool:
        began = monotonic()
        kept = self._db.renew(self.id, timeout)
        if kept:
            self._kept_at = began
        return kept
