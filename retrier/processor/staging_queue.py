"""The staging queue as a thing: deleted when it is held or does not answer, declared when needed."""

from dataclasses import dataclass, replace

from retrier.errors import (
    BrokerUnavailable,
    DatabaseUnavailable,
    QueueSilent,
    StagingQueueUnusable,
)
from retrier.events.forwarding import StagingQueueDeleted
from retrier.events.processor import StagingQueueRenewed
from retrier.processor.stage_context import StageContext

MOST_RENEWALS = 3
PERIOD = 3600.0


@dataclass(frozen=True, slots=True)
class Renewals:
    """When the staging queue was deleted because it did not answer, in seconds of one clock.

    Not more than three times an hour: behind a slow disk the next one is as silent, and to delete
    and fill queues makes such a disk slower.
    """

    times: tuple[float, ...] = ()

    def add(self, now: float) -> "Renewals | None":
        """Return these with one more; None when there were as many as may be in an hour."""
        recent = tuple(time for time in self.times if now - time < PERIOD)
        return replace(self, times=(*recent, now)) if len(recent) < MOST_RENEWALS else None

    def without_last(self) -> "Renewals":
        """Return these without the last one, which did not come about."""
        return replace(self, times=self.times[:-1])


class StagingQueue:
    """Deletes the staging queue. Its copies can be made again: the database is the truth."""

    def __init__(self, context: StageContext) -> None:
        self._context = context
        self._renewals = Renewals()
        self._silent: QueueSilent | None = None

    def note(self, silent: QueueSilent) -> None:
        """Have it deleted at the next turn, in which all is as after a lost connection.

        Raises StagingQueueUnusable when that was done too often.
        """
        renewals = self._renewals.add(self._context.clock.monotonic())
        if renewals is None:
            raise StagingQueueUnusable(
                f"{silent}. It was deleted and declared anew {MOST_RENEWALS} times within an hour, "
                "which is not done again for now: is the broker's disk slow, or a node of it away?"
            ) from silent
        self._renewals, self._silent = renewals, silent

    def forget(self) -> None:
        """Forget that it was silent: whoever holds the lease now finds out by itself."""
        self._silent = None

    def renew(self) -> None:
        """Delete it if it was silent. Raises LeaseLost, DatabaseUnavailable, BrokerUnavailable."""
        silent, self._silent = self._silent, None
        if silent is None:
            return
        self._context.emit(StagingQueueRenewed(reason=str(silent)))
        try:
            self.delete()
        except QueueSilent:
            raise
        except (BrokerUnavailable, DatabaseUnavailable):
            # A node that goes away again and again must not use up what heals its queue.
            self._renewals = self._renewals.without_last()
            raise

    def delete(self) -> None:
        """Delete it, with all connections and so with all that we or others hold of it.

        The pause is needed: a quorum queue declared anew at once kept the dead consumer
        registered and handed it all new copies. Raises what `renew` raises.
        """
        context = self._context
        context.lease.ensure_fresh()
        context.broker.drop()
        context.broker.queues.delete(context.retries.staging_queue)
        context.emit(StagingQueueDeleted(queue=context.retries.staging_queue))
        context.stop.wait(context.retries.redeclare_pause.total_seconds())
