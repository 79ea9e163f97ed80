"""What each may see of the database: all of it, or what belongs to some queues."""

from collections import OrderedDict
from threading import Lock

from retrier.domain.access import QueuePatterns
from retrier.store.engine.database import Database

MOST = 50
"""Different rights whose connections stay open; who has others opens them anew."""


class Sights:
    """Databases by the queues that are seen of them."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._known: OrderedDict[QueuePatterns, Database] = OrderedDict()
        self._lock = Lock()

    def of(self, queues: QueuePatterns) -> Database:
        """Return the database with what belongs to queues of these patterns only."""
        with self._lock:
            found = self._known.get(queues)
            if found is None:
                found = self._known[queues] = self._db.narrowed(queues)
            self._known.move_to_end(queues)
            if len(self._known) > MOST:
                self._known.popitem(last=False)[1].dispose()
            return found
