"""The staging queue: deleted and declared when needed; copies for it, and messages made of them."""

from dataclasses import dataclass, replace
from uuid import uuid4

from retrier.domain.copies import (
    StagedCopy,
    Stamps,
    make_end_marker,
    make_forwarded,
    make_probe,
    make_staged,
    read_staged,
    why_not_sendable,
)
from retrier.domain.retry_batch import ClaimedMessage, Ejected, StoredOriginal
from retrier.domain.wire import Outgoing, UnreadableProperties
from retrier.errors import (
    BrokerUnavailable,
    DatabaseUnavailable,
    QueueSilent,
    StagingQueueUnusable,
)
from retrier.events.event import Emit
from retrier.events.forwarding import StagingQueueDeleted
from retrier.events.preparation import StagingIdsRecorded
from retrier.events.processor import StagingQueueRenewed
from retrier.processor.forwarding_run import ForwardingRun
from retrier.processor.lease import Lease
from retrier.processor.stage_context import RetryParameters, StageContext
from retrier.store.engine.database import Database
from retrier.store.verbs.upkeep import record_staging_ids
from retrier.transport.seam import Transport

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


_LOST = "its body is not in the database any more: somebody has deleted it"


def make_copy(
    context: StageContext, message: ClaimedMessage, staging_id: str
) -> Outgoing | Ejected:
    """Return the copy for the staging queue, or why no retry may be sent to the destination."""
    reason = why_not_sendable(message.destination, context.retries.closed_to_retries)
    if reason is not None:
        return _eject(message, reason)
    raw = make_staged(context.broker.transport.codec, message, _stamps(context, staging_id))
    return Outgoing(queue=context.retries.staging_queue, raw=raw, body=b"")


def make_marker(context: StageContext, staging_id: str) -> tuple[str, Outgoing]:
    """Return an end marker, and the nonce it is known by."""
    nonce = str(uuid4())
    codec = context.broker.transport.codec
    raw = make_end_marker(codec, _stamps(context, staging_id), nonce)
    return nonce, Outgoing(queue=context.retries.staging_queue, raw=raw, body=b"")


def make_retry(
    context: StageContext, copy: StagedCopy, original: StoredOriginal | None
) -> Outgoing | Ejected:
    """Return the message as it failed, on its way back; or why there is nothing to send."""
    if original is None:
        return _eject(copy, _LOST)
    transport = context.broker.transport
    try:
        raw = make_forwarded(
            transport.codec,
            original,
            copy,
            acknowledgement_queue=context.retries.acknowledgement_queue(original.error_queue),
            own_user=transport.user,
        )
    except UnreadableProperties as error:
        return _eject(copy, f"its stored properties cannot be read: {error}")
    return Outgoing(queue=copy.target, raw=raw, body=original.body)


def get_probe_ready(
    db: Database, lease: Lease, transport: Transport, retries: RetryParameters, emit: Emit
) -> Outgoing:
    """Return the copy that nobody asks for: it proves that the staging queue takes our copies.

    Its staging id, the session's id, is recorded first. One id for all probes of a session: a
    broker that breaks each connection must not fill the table. Raises LeaseLost,
    DatabaseUnavailable.
    """
    record_staging_ids(db, lease.fence, [retries.session_id])
    emit(StagingIdsRecorded(staging_ids=(retries.session_id,)))
    stamps = Stamps(staging_id=retries.session_id, installation_id=retries.installation_id)
    return make_probe(transport.codec, stamps, retries.staging_queue)


def _stamps(context: StageContext, staging_id: str) -> Stamps:
    return Stamps(staging_id=staging_id, installation_id=context.retries.installation_id)


def _eject(message: ClaimedMessage | StagedCopy, reason: str) -> Ejected:
    return Ejected(
        number=message.number, unique_message_id=message.unique_message_id, reason=reason
    )


_GATHERING = 0.005
"""Seconds to wait for the next of the copies that are known to come."""


def receive(context: StageContext, run: ForwardingRun, wait: float) -> tuple[ForwardingRun, int]:
    """Receive what is there, at most a window; wait so long for the first copy.

    Returns the run with what is wanted of it, and how many copies of another installation were
    put back. Raises BrokerUnavailable, StagingQueueUnusable.
    """
    room = context.retries.window - len(run.inbox)
    if room <= 0:
        return run, 0
    consumer = context.broker.consumer(context.retries.prefetch)
    deliveries = consumer.receive(room, wait)
    # The first copies come one by one: a window of them would cost as much as a full one.
    while deliveries and len(deliveries) < min(room, run.outstanding):
        more = consumer.receive(room - len(deliveries), _GATHERING)
        if not more:
            break
        deliveries += more
    codec, ours = context.broker.transport.codec, (None, context.retries.installation_id)
    arrived = [(delivery, read_staged(codec, delivery.raw)) for delivery in deliveries]
    foreign = [each for each, copy in arrived if copy and copy.installation_id not in ours]
    if foreign:
        consumer.put_back(foreign)
    sorted_run = run.sort(each for each in arrived if each[0] not in foreign)
    # Where there is order, what nobody asked for is no sign that more will come: somebody
    # who keeps putting things there would keep the batch open for ever.
    ordered = context.broker.transport.capabilities.ordered
    if sorted_run.arrived > run.arrived or (deliveries and not ordered):
        sorted_run = replace(sorted_run, quiet_since=context.clock.monotonic())
    return sorted_run, len(foreign)


def refuse_foreign(count: int) -> StagingQueueUnusable:
    """Return the error for copies of another installation."""
    return StagingQueueUnusable(
        f"{count} copies of another Retrier installation are in the staging queue: two "
        "installations share a broker and an instance name. They were put back. Give one of "
        "them another `instance`."
    )
