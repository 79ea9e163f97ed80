"""The right to be the processor: held by one process, renewed by two threads, fenced by epoch."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from threading import Event, Lock

from retrier.clock import Clock
from retrier.domain.values import dataclass
from retrier.errors import LeaseLost
from retrier.events.event import Emit, ignore
from retrier.events.processor import LeaseHeld, LeaseHeldLong
from retrier.store.engine.database import Database
from retrier.store.engine.transaction import LeaseHold
from retrier.store.lease import (
    LONGEST_HOLD,
    Fence,
    HeldByAnother,
    Holder,
    acquire_lease,
    release_lease,
    renew_lease,
)

_WARN_AGAIN_AFTER = 60.0
"""Seconds in which one kind of transaction is warned of once: what is slow is slow each time."""


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
        emit: Emit = ignore,
    ) -> None:
        self._db = db
        self._holder = holder
        self._duration = duration
        self._clock = clock
        self._is_dead = is_dead
        self._emit = emit
        self._warned: dict[str, float] = {}
        self._lock = Lock()
        self._fence: Fence | None = None
        self._renewed = 0.0
        self._watched: tuple[datetime, float] | None = None
        """When another holder last renewed, and when that lease is over by our own clock."""

    @property
    def held(self) -> bool:
        """Whether this process holds the lease, as far as it knows."""
        return self._fence is not None

    @property
    def seconds(self) -> float:
        """How long the lease lasts unless it is renewed."""
        return self._duration.total_seconds()

    @property
    def fence(self) -> Fence:
        """Holder and epoch, which each commit checks. Raises LeaseLost when it is not held."""
        fence = self._fence
        if fence is None:
            raise LeaseLost("the lease is not held")
        return fence

    def acquire(self) -> HeldByAnother | None:
        """Try to become the processor; return the present holder, or None on success.

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
                    self._fence = replace(fence, told=self._tell)
                    self._renewed = before
                return None

    def _watch(self, other: HeldByAnother, now: float) -> None:
        """Measure by our own clock for how long another holder has not renewed.

        The database's clock may be set back: by that clock, the lease of a dead holder would end
        later by as much.
        """
        if self._watched is None or self._watched[0] != other.renewed_at:
            length = other.expires_at - other.renewed_at
            self._watched = (other.renewed_at, now + length.total_seconds())

    def _find_silence(self, now: float) -> datetime | None:
        """Return when another holder last renewed, if a whole lease has passed since, else None."""
        if self._watched is None or now < self._watched[1]:
            return None
        return self._watched[0]

    def renew_if_due(self) -> None:
        """Renew when a third of the lease has passed; do nothing when it is not held.

        A process that was frozen past its lease notices it here, before it acks or publishes.
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
        """Make sure that the lease was renewed less than a third of its length ago.

        Raises LeaseLost, DatabaseUnavailable.
        """
        self.renew_if_due()
        # Still needed: once the tick's thread has lost the lease, the renewal above does nothing.
        self.check()

    def check(self) -> None:
        """Raise LeaseLost when the lease is known to be lost, without asking the database.

        Called while confirms are outstanding: a database error must not end that wait, or messages
        that the broker confirms would be sent again.
        """
        if self._fence is None:
            raise LeaseLost("the lease is not held")

    def lose(self) -> None:
        """Forget a lease that another process has taken."""
        with self._lock:
            self._fence = None

    def release(self) -> None:
        """Give the lease back, so that nobody waits for its end. Raises DatabaseUnavailable."""
        with self._lock:
            fence, self._fence = self._fence, None
        if fence is not None:
            release_lease(self._db, fence)

    def _tell(self, hold: LeaseHold) -> None:
        """Tell how long a transaction has held the lease; of a kind that is slow, now and then."""
        self._emit(LeaseHeld(verb=hold.verb, seconds=hold.seconds))
        if hold.seconds <= LONGEST_HOLD:
            return
        now = self._clock.monotonic()
        if now - self._warned.get(hold.verb, -_WARN_AGAIN_AFTER) >= _WARN_AGAIN_AFTER:
            self._warned[hold.verb] = now
            self._emit(
                LeaseHeldLong(
                    verb=hold.verb,
                    seconds=hold.seconds,
                    statements=hold.statements,
                    slowest=hold.slowest,
                    slowest_seconds=hold.slowest_seconds,
                )
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderContext:
    """What everything is given that works while this process holds the lease."""

    db: Database
    lease: Lease
    clock: Clock
    emit: Emit
    stop: Event
