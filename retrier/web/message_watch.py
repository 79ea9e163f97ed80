"""Watches the messages whose pages are open, so that these pages change when their message does."""

import threading
from collections.abc import Mapping

from retrier.clock import Clock
from retrier.domain.identity import canonical, is_guid
from retrier.store.engine.database import Database
from retrier.store.queries.message_marks import MessageMark, find_marks
from retrier.web.live_page import MOST_TABS
from retrier.web.pace import WATCHED_FOR


class MessageWatch:
    """Knows which messages somebody looked at lately. Any thread may note one."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock
        self._lock = threading.Lock()
        self._noted: dict[str, float] = {}

    def note(self, unique_id: str) -> None:
        """Note that somebody looks at this message. A tab says so again while it is connected."""
        if not is_guid(unique_id):
            return
        with self._lock:
            self._noted.pop(canonical(unique_id), None)
            self._noted[canonical(unique_id)] = self._clock.monotonic()
            # Addresses with made-up ids cost no more than as many tabs as may be open.
            while len(self._noted) > MOST_TABS:
                del self._noted[next(iter(self._noted))]

    def look(self) -> Mapping[str, MessageMark]:
        """Return the marks of these messages; nothing is asked for none. Raises DatabaseUnavailable."""
        return find_marks(self._db, self._still())

    def _still(self) -> tuple[str, ...]:
        least = self._clock.monotonic() - WATCHED_FOR
        with self._lock:
            self._noted = {key: at for key, at in self._noted.items() if at > least}
            return tuple(self._noted)
