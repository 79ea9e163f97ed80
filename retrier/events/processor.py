"""What happens to the processor itself: its lease, its troubles, and its idle turns."""

from dataclasses import dataclass

from retrier.events.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseAcquired(Event):
    """This process is the processor, and has done nothing yet."""

    name = "lease.acquired"
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseReleased(Event):
    """A stop has given the lease back; the process is about to end."""

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
class GaveWay(Event):
    """The lease is given up, for a process that may reach what this one does not."""

    name = "processor.gave_way"
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorIdle(Event):
    """A turn found nothing to do."""

    name = "processor.idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFailed(Event):
    """A turn of the processor ended with this error, the first of its kind in this trouble."""

    name = "processor.turn_failed"
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorRecovered(Event):
    """The trouble is over."""

    name = "processor.recovered"


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingQueueRenewed(Event):
    """The staging queue does not answer and is about to be deleted and declared anew."""

    name = "staging.renewed"
    reason: str


LeaseEffect = LeaseAcquired | LeaseReleased
"""Each follows an effect that a killed process leaves behind: tests kill a process at each."""
