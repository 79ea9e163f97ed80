"""The right to be the processor: held by one process, renewed by two threads, fenced by epoch."""

from collections.abc import Callable
from datetime import datetime, timedelta
from threading import Lock

from retrier.clock import Clock
from retrier.errors import LeaseLost
from retrier.store.engine.database import Database
from retrier.store.verbs.leases import (
    Fence,
    HeldByAnother,
    Holder,
    acquire_lease,
    release_lease,
    renew_lease,
)


class Lease:
    """The processor's lease as this process sees it.

    The tick renews it while the processor waits; every fenced transaction renews it too.
    """

    def __init__(
        self,
        db: Database,
        holder: Holder,
        duration: timedelta,
        clock: Clock,
        is_dead: Callable[[Holder], bool],
    ) -> None:
        self._db = db
        self._holder = holder
        self._duration = duration
        self._clock = clock
        self._is_dead = is_dead
        self._lock = Lock()
        self._fence: Fence | None = None
        self._renewed = 0.0
        self._watched: tuple[datetime, float] | None = None
        """When another one's lease was last renewed, and until when ours is to be patient."""

    @property
    def held(self) -> bool:
        """Whether this process believes to be the processor."""
        return self._fence is not None

    @property
    def seconds(self) -> float:
        """How long it lasts unless it is renewed."""
        return self._duration.total_seconds()

    @property
    def fence(self) -> Fence:
        """What fences a commit. Raises LeaseLost when the lease is not held."""
        fence = self._fence
        if fence is None:
            raise LeaseLost("the lease is not held")
        return fence

    def acquire(self) -> HeldByAnother | None:
        """Try to become the processor; return who is, or None on success.

        Raises DatabaseUnavailable.
        """
        before = self._clock.monotonic()
        silent_since = self._find_silence(before)
        match acquire_lease(self._db, self._holder, self._duration, self._is_dead, silent_since):
            case HeldByAnother() as other:
                self._watch(other, before)
                return other
            case Fence() as fence:
                with self._lock:
                    self._fence, self._renewed = fence, before
                return None

    def _watch(self, other: HeldByAnother, now: float) -> None:
        """Measure by our own clock how long another one's lease is not renewed.

        The database's may be set back, and then the lease of a holder that is dead runs out only
        after that much more.
        """
        if self._watched is None or self._watched[0] != other.renewed_at:
            length = other.expires_at - other.renewed_at
            self._watched = (other.renewed_at, now + length.total_seconds())

    def _find_silence(self, now: float) -> datetime | None:
        """Return since when another one's lease is not renewed, if that is as long as it lasts."""
        if self._watched is None or now < self._watched[1]:
            return None
        return self._watched[0]

    def renew_if_due(self) -> None:
        """Renew when a third of the lease is over; nothing when it is not held.

        A process that was frozen past its lease finds out here, before it acks or publishes.
        Raises LeaseLost, DatabaseUnavailable.
        """
        with self._lock:
            fence = self._fence
            before = self._clock.monotonic()
            if fence is None or before - self._renewed < self.seconds / 3:
                return
            try:
                renew_lease(self._db, fence)
            except LeaseLost:
                self._fence = None
                raise
            self._renewed = before

    def ensure_fresh(self) -> None:
        """Make sure that it was renewed within the last third of its length.

        Raises LeaseLost, DatabaseUnavailable.
        """
        self.renew_if_due()
        # Asked last: the tick may have found out meanwhile, and then there is nothing to renew.
        self.check()

    def check(self) -> None:
        """Raise LeaseLost when the lease is known to be lost; asks no database.

        Called while confirms are outstanding: a database that is away must not end that wait,
        or what the broker has confirmed would be sent again.
        """
        if self._fence is None:
            raise LeaseLost("the lease is not held")

    def lose(self) -> None:
        """Forget a lease that another process has taken."""
        with self._lock:
            self._fence = None

    def release(self) -> None:
        """Let the next processor in at once. Raises DatabaseUnavailable."""
        with self._lock:
            fence, self._fence = self._fence, None
        if fence is not None:
            release_lease(self._db, fence)
