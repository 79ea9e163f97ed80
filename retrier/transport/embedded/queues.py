"""Looks at queues, and declares the ones Retrier owns."""

from retrier.errors import BrokerUnavailable, StagingQueueUnusable
from retrier.transport.embedded.queues_db import QueuesDb


class EmbeddedQueues:
    """Asks one question at a time."""

    def __init__(self, db: QueuesDb) -> None:
        self._db = db

    def depth(self, queue: str) -> int | None:
        """Return how many messages are ready, or None when there is no such queue."""
        return self._db.count_ready(queue)

    def declare_error_queue(self, queue: str) -> bool:
        """Declare it if it is missing; return whether it was missing."""
        missing = self._db.look(queue) is None
        self._db.declare(queue, single_active=False)
        return missing

    def declare_staging_queue(self, queue: str) -> None:
        """Make sure it exists as ours. Raises StagingQueueUnusable. See the seam."""
        messages = self._db.declare_single_active(queue)
        if messages:
            raise StagingQueueUnusable(
                f"the queue {queue!r} in {self._db.place} is not ours and in use: it holds "
                f"{messages} messages. Empty and delete it, or give this instance another name."
            )

    def may_limit_deliveries(self, _queue: str) -> bool:
        """Say no: nothing is dropped, however often it comes back."""
        return False

    def why_not_ingestible(self, _queue: str) -> None:
        """Say nothing: there is one kind of queue."""

    def purge(self, queue: str) -> int:
        """Drop every ready message; return how many."""
        purged = self._db.purge(queue)
        if purged is None:
            raise BrokerUnavailable(f"the embedded broker {self._db.place}: no queue {queue!r}")
        return purged

    def delete(self, queue: str) -> None:
        """Delete the queue with all it holds; a missing one is fine."""
        self._db.delete(queue)

    def keep_alive(self) -> None:
        """Do nothing: a file asks for no sign of life."""

    def close(self) -> None:
        """Close the file; never hangs, never raises."""
        self._db.close()
