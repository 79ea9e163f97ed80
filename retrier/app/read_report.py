"""Writes how far this process has read its error queues, while a canary waits to be judged."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

from retrier.app.process import describe_holder, is_dead
from retrier.clock import Clock
from retrier.errors import BrokerUnavailable, DatabaseUnavailable
from retrier.ingestion.ingestor import Ingestor
from retrier.store.engine.database import Database
from retrier.store.error_queue_reads import is_any_canary_waiting, note_reads, note_stopped
from retrier.transport.seam import Queues, Transport


class ReadReport:
    """One look a second; without a waiting canary it writes nothing but its start and its end.

    A queue is level at a moment if the broker says after it that nothing is ready, or that there is
    no such queue, and if this process, looking after that answer, finds nothing and has nothing in
    hand: then all that was on the queue at that moment is stored.
    """

    def __init__(
        self,
        db: Database,
        transport: Transport,
        clock: Clock,
        ingestors: Sequence[Ingestor],
        session_id: str,
    ) -> None:
        self._db = db
        self._transport = transport
        self._clock = clock
        self._ingestors = ingestors
        self._holder = describe_holder(session_id)
        self._queues: Queues | None = None
        self._has_begun = False
        self._ready: dict[str, int | None] = {}
        self._empty: dict[str, tuple[float, datetime]] = {}
        """Queues on which nothing was ready: since when (monotonic) and as of when that is said."""

    def __call__(self) -> None:
        """Look and write. Raises DatabaseUnavailable."""
        if self._has_begun and not is_any_canary_waiting(self._db):
            self._forget()
            return
        seen = {
            each.mapping.queue: {
                "ready": self._ready.get(each.mapping.queue),
                "level_at": self._level_at(each),
            }
            for each in self._ingestors
        }
        now = note_reads(self._db, self._holder, seen, is_dead)
        self._has_begun = True
        try:
            self._look(now)
        except BrokerUnavailable:
            # The look at the depths says so; here it only means that nothing is level.
            self._forget()

    def stop(self) -> None:
        """Say that this process reads no more: it has stored or given back what it had."""
        self._forget()
        with suppress(DatabaseUnavailable):
            note_stopped(self._db, self._holder.session_id)

    def _look(self, now: datetime) -> None:
        self._queues = self._queues or self._transport.queues()
        for each in self._ingestors:
            queue = each.mapping.queue
            ready = self._ready[queue] = self._queues.depth(queue)
            if not ready and queue not in self._empty:
                self._empty[queue] = (self._clock.monotonic(), now)

    def _level_at(self, ingestor: Ingestor) -> datetime | None:
        """Return the moment at which the queue is found to have been level; None if nothing new."""
        since, as_of = self._empty.get(ingestor.mapping.queue, (0.0, None))
        empty = ingestor.empty_since
        if as_of is None or empty is None or empty < since:
            return None
        del self._empty[ingestor.mapping.queue]
        return as_of

    def _forget(self) -> None:
        self._ready, self._empty = {}, {}
        if self._queues is not None:
            self._queues.close()
            self._queues = None
