"""Events of the processor itself: its lease, its errors, and its idle turns."""

from dataclasses import dataclass

from retrier.events.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseAcquired(Event):
    """This process is the processor, and has done nothing as such yet."""

    name = "lease.acquired"
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseReleased(Event):
    """The lease is released because of a stop; the process is about to end."""

    name = "lease.released"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseEnded(Event):
    """Another process may be the processor by now."""

    name = "processor.lease_lost"
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseAwaited(Event):
    """Another process is the processor; this one stands by."""

    name = "processor.waiting_for_lease"
    host: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseHeld(Event):
    """A transaction of the processor is over, and has held the lease for so long."""

    name = "lease.held"
    verb: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseHeldLong(Event):
    """One has held it for too long; the first of its kind in a minute.

    `slowest` is the slowest of its statements, without values: it took `slowest_seconds`.
    """

    name = "processor.lease_held_long"
    verb: str
    seconds: float
    statements: int
    slowest: str
    slowest_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GaveWay(Event):
    """The lease is given up: another process may reach the broker that this one cannot reach."""

    name = "processor.gave_way"
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorIdle(Event):
    """A turn found nothing to do."""

    name = "processor.idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFailed(Event):
    """A turn of the processor failed; the first error of its kind since a turn succeeded."""

    name = "processor.turn_failed"
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorRecovered(Event):
    """A turn of the processor succeeded again after errors."""

    name = "processor.recovered"


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingQueueRenewed(Event):
    """The staging queue does not answer, so it is about to be deleted and declared again."""

    name = "staging.renewed"
    reason: str


LeaseEffect = LeaseAcquired | LeaseReleased
"""Each follows an effect that outlives a killed process: tests kill a process at each of them."""
