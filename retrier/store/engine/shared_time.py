"""The database's clock, for whatever is compared with what other hosts have written."""

from datetime import datetime

from retrier.clock import Clock
from retrier.store.engine.database import Database


class DatabaseClock:
    """Tells the time of the database; measures durations as this machine does."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    def now(self) -> datetime:
        """Return the time of day of the database, in UTC. Raises DatabaseUnavailable."""
        return self._db.read(lambda tx: tx.now)

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start; never goes back."""
        return self._clock.monotonic()
