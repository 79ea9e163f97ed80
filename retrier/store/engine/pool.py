"""A pool of database connections that closes those which nobody has needed for a while."""

from threading import Condition
from time import monotonic
from typing import Any, NamedTuple, Self

from sqlalchemy.exc import TimeoutError as NoConnectionFree
from sqlalchemy.pool import ConnectionPoolEntry, Pool


class _Resting(NamedTuple):
    record: ConnectionPoolEntry
    since: float


class RestingPool(Pool):
    """Gives the connection that was used last, so that what is not needed rests, and can be closed.

    SQLAlchemy's own pool keeps every connection that a busy moment has opened, and takes them in
    turns, so that none of them ever rests (decision 0171). No more than `max_connections` are open;
    whoever needs one more waits for it, up to `wait` seconds.
    """

    def __init__(
        self, creator: Any, max_connections: int = 20, wait: float = 30.0, **options: Any
    ) -> None:
        super().__init__(creator, **options)
        self._max_connections = max_connections
        self._wait = wait
        self._open = 0
        """How many connections are in use or rest."""
        self._resting: list[_Resting] = []
        self._changed = Condition()

    def close_rested(self, rest: float) -> None:
        """Close the connections that nobody has used for so many seconds."""
        with self._changed:
            # The list is in the order in which they came back: the first one has rested longest.
            since = monotonic() - rest
            rested = [each for each in self._resting if each.since <= since]
            del self._resting[: len(rested)]
            self._open -= len(rested)
            self._changed.notify_all()
        for each in rested:
            each.record.close()

    def dispose(self) -> None:
        """Close the connections that rest; those in use are closed by whoever holds them."""
        self.close_rested(0)

    def recreate(self) -> Self:
        """Return an empty pool with the same settings."""
        return type(self)(
            self._creator,
            self._max_connections,
            self._wait,
            recycle=self._recycle,
            echo=self.echo,
            logging_name=self._orig_logging_name,
            reset_on_return=self._reset_on_return,
            pre_ping=self._pre_ping,
            dialect=self._dialect,
            _dispatch=self.dispatch,
        )

    def status(self) -> str:
        """Return how many connections there are."""
        return f"{self._open} connections, {len(self._resting)} of them rest"

    def _do_get(self) -> ConnectionPoolEntry:
        with self._changed:
            if not self._changed.wait_for(self._has_one, self._wait):
                raise NoConnectionFree(f"all {self._max_connections} connections are in use")
            if self._resting:
                return self._resting.pop().record
            self._open += 1
        try:
            return self._create_connection()
        except BaseException:
            with self._changed:
                self._open -= 1
                self._changed.notify()
            raise

    def _do_return_conn(self, record: ConnectionPoolEntry) -> None:
        with self._changed:
            self._resting.append(_Resting(record, monotonic()))
            self._changed.notify()

    def _has_one(self) -> bool:
        return bool(self._resting) or self._open < self._max_connections
